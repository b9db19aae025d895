"""`doorward check`: compile policies, and report everything that is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import click
from click.core import ParameterSource

from doorward.base.collector import gc_paused
from doorward.bundles.loader import Loaded, LoadError
from doorward.bundles.sources import Sources
from doorward.cli import capabilities, colors, extensions, saved_programs, schemas
from doorward.cli.arguments import argument, style_option
from doorward.cli.errors import documents_text, for_people, warn
from doorward.cli.findings import findings_of, github, junit, sarif
from doorward.rego import CompileError, Diagnostic, Options, Registry, RegoError
from doorward.rego.golang import indent, object_text
from doorward.rego.shared import Capabilities, ParseError, Source
from doorward.rego.tools import (
    CheckOptions,
    Module,
    Parsed,
    check,
    check_base_data,
    parse_module,
    parse_with_recovery,
    report,
)

__all__ = ["command"]


@click.command(
    "check",
    epilog="""\b
Examples:
  doorward check policy.rego
  doorward check --strict --format json policies/
  doorward check --format sarif policies/ > check.sarif     # for code scanning
""",
)
@argument("paths", nargs=-1, help="Files and folders with policies.")
@style_option("pretty", "json", "sarif", "github", "junit", default="pretty")
@click.option(
    "-S", "--strict", is_flag=True, help="Apply strict mode: report unused imports and variables."
)
@click.option(
    "-m",
    "--max-errors",
    default=10,
    show_default=True,
    help="Maximum number of errors to report; 0 reports all.",
)
@click.option(
    "--all-errors",
    is_flag=True,
    help="Continue after parse errors, and report all errors.",
)
@click.option(
    "--ignore",
    multiple=True,
    help="Skip files and folders with this name or pattern, such as '.*', in folders; repeatable.",
)
@click.option(
    "-b",
    "--bundle",
    is_flag=True,
    help="Read PATHS as bundles, folders or .tar.gz; their data is checked too.",
)
@schemas.option
@capabilities.option
@extensions.option
@saved_programs.option
@click.option("--v0-v1", is_flag=True, help="Require policies to be valid in both Rego v0 and v1.")
@click.option("--v0-compatible", is_flag=True, help="Read policies as Rego v0.")
@click.option("--v1-compatible", is_flag=True, hidden=True)
def command(
    paths: tuple[str, ...],
    style: str,
    strict: bool,
    max_errors: int,
    all_errors: bool,
    ignore: tuple[str, ...],
    bundle: bool,
    schema: str | None,
    capabilities: Capabilities | None,
    builtins: tuple[str, ...],
    v0_v1: bool,
    v0_compatible: bool,
    v1_compatible: bool,
) -> int:
    """Check the policies in files and folders for errors.

    Errors are reported on standard error, each with its code, position and source line. The exit
    code is 1 if there are any. As in OPA, the first statement that cannot be parsed hides the rest
    of its file, and types are checked only if there are no other errors; --all-errors continues.
    """
    if not paths:
        raise click.UsageError("specify at least one file")
    failure: RegoError | LoadError | None = None
    files: Sequence[str] = ()
    try:
        if all_errors and not _is_given("max_errors"):
            max_errors = 0
        options = CheckOptions(strict, max_errors, schemas.read_schemas(schema))
        registry = extensions.registry_for(builtins, paths)
        if capabilities is not None:
            registry = capabilities.registry(registry)
        for v0 in (False, True) if v0_v1 else (v0_compatible,):
            with gc_paused():
                loaded = _load(paths, ignore, bundle=bundle, v0=v0)
                files = list(loaded.modules)
                warn(loaded.notes)
                success = _SuccessNote(loaded, options, registry, v0=v0, allowed=capabilities)
                # Not for bundles: their data is checked too, but the note's key lacks it.
                if not bundle and success.is_noted:
                    continue
                if all_errors:
                    _check_all(loaded, options, registry, v0=v0, allowed=capabilities)
                _check(loaded, options, registry, v0=v0, allowed=capabilities, with_data=bundle)
                success.note()
    except (LoadError, RegoError) as error:
        failure = error
    _report(failure, files, style)
    return 0 if failure is None else 1


class _SuccessNote:
    """A note on disk that an earlier run of `check` found no error in the same policies with the
    same options, so that they need not be checked again. It is in the folder of saved programs;
    without such a folder nothing is noted.
    """

    def __init__(
        self,
        loaded: Loaded,
        options: CheckOptions,
        registry: Registry,
        *,
        v0: bool,
        allowed: Capabilities | None,
    ) -> None:
        """Determine the note's name from the texts of all policies and every option of the
        compiler.
        """
        self._folder = saved_programs.saved_folder()
        self._name: str | None = None
        if self._folder is None:
            return
        from doorward.rego.tools import key_of, name_of  # and hashlib, for the key of a note

        compiling = Options(
            v0=v0,
            rego_versions=loaded.rego_versions,
            strict=options.strict,
            registry=registry,
            capabilities=allowed,
            schemas=options.schemas,
            metadata=True,
        )
        key = key_of(loaded.modules, compiling)
        self._name = None if key is None else name_of(key, "checked")

    @property
    def is_noted(self) -> bool:
        """True if an earlier run checked the same policies and found no error."""
        if self._folder is None or self._name is None:
            return False
        return self._folder.read(self._name) is not None

    def note(self) -> None:
        """Note that the policies have no errors, for later runs."""
        if self._folder is not None and self._name is not None:
            self._folder.write(self._name, b"")


def _load(paths: Sequence[str], ignore: Sequence[str], *, bundle: bool, v0: bool) -> Loaded:
    """Load the policies and data of bundles, if `bundle` is set; otherwise only the policies in
    files and folders, without the data files beside them.
    """
    if bundle:
        return Sources(bundles=paths, ignore=ignore, v0=v0).load()
    return Sources(paths=paths, ignore=ignore, v0=v0, policies_only=True).load()


def _check(
    loaded: Loaded,
    options: CheckOptions,
    registry: Registry,
    *,
    v0: bool,
    allowed: Capabilities | None,
    with_data: bool,
) -> None:
    """Check all policies without generating code. Raise ParseError with the errors of those that
    cannot be parsed or that need more than `allowed` (None allows everything); if there are none,
    CompileError with the errors of the compiler.

    `with_data`: a rule whose path is also data is an error as well, as in OPA with bundles only.
    """
    trees: list[Module] = []
    errors: list[Diagnostic] = []
    for source, source_v0 in _sources(loaded, v0=v0):
        try:
            trees.append(parse_module(source, v0=source_v0, annotations=True, builtins=registry))
            if allowed is not None:
                errors += allowed.problems(trees[-1], v0=source_v0)
        except ParseError as error:
            errors += error.diagnostics
    if errors:
        raise ParseError(errors)
    program = check(trees, registry, options)
    if with_data:
        errors = check_base_data(program.modules, loaded.data)
        if errors:
            raise CompileError(report(errors, options.max_errors))


def _check_all(
    loaded: Loaded,
    options: CheckOptions,
    registry: Registry,
    *,
    v0: bool,
    allowed: Capabilities | None,
) -> None:
    """Check all policies. Raise CompileError with the errors of all phases, at most `max_errors` of
    them (0: all): a statement that cannot be parsed hides no error elsewhere.
    """
    from doorward.rego.tools import find_errors  # few ask for all errors

    parsed: dict[str, Parsed] = {}
    for source, source_v0 in _sources(loaded, v0=v0):
        each = parse_with_recovery(source, v0=source_v0, builtins=registry)
        errors = list(each.errors)
        if allowed is not None and each.module is not None:
            errors += allowed.problems(each.module, v0=source_v0)
        if not errors:
            try:
                parse_module(source, v0=source_v0, annotations=True, builtins=registry)
            except ParseError as error:
                errors += error.diagnostics
        parsed[source.name] = each._replace(errors=tuple(errors))
    diagnostics = find_errors(parsed, registry, replace(options, max_errors=0))
    if diagnostics:
        raise CompileError(report(diagnostics, options.max_errors))


def _sources(loaded: Loaded, *, v0: bool) -> Iterator[tuple[Source, bool]]:
    """Yield the texts of the policies, each with True if it is read as Rego v0."""
    for name, text in loaded.modules.items():
        version = loaded.rego_versions.get(name)
        yield Source(name, text), v0 if version is None else version == 0


def _is_given(option: str) -> bool:
    """Return True if the user gave the option instead of its default."""
    source = click.get_current_context().get_parameter_source(option)
    return source is not ParameterSource.DEFAULT


def _report(error: RegoError | LoadError | None, files: Sequence[str], style: str) -> None:
    """Print the result of a check in the format `style`; `error` is None if the check succeeded.
    sarif, github and junit also report success, on standard output; json and pretty print only
    errors, on standard error. `files` are the policies that were checked, for junit.
    """
    if style in ("sarif", "github", "junit"):
        findings = findings_of(error) if error is not None else []
        if style == "sarif":
            click.echo(sarif(findings))
        else:
            click.echo(github(findings) if style == "github" else junit(files, findings), nl=False)
    elif error is None:
        return
    elif style == "json":
        text = indent(object_text({"errors": documents_text(error)}), "", "  ")
        click.echo(text, err=True)
    else:
        text = str(error) if isinstance(error, LoadError) else for_people(error)
        colors.echo(text, "errors", err=True)
