"""`doorward eval`: one query, once, with the flags, formats and exit codes of `opa eval`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from doorward.base.collector import gc_paused
from doorward.base.records import record
from doorward.bundles.loader import LoadError
from doorward.bundles.sources import Sources
from doorward.cli import capabilities, colors, extensions, saved_programs, schemas
from doorward.cli.arguments import argument, bundle_option, data_option, style_option
from doorward.cli.durations import seconds
from doorward.cli.errors import OneOf, documents_text, for_people, warn
from doorward.cli.input_document import read_input
from doorward.cli.metrics import metrics_field, metrics_table
from doorward.cli.profiles import in_order, profile_document, profile_table
from doorward.cli.queries import read_query
from doorward.cli.results import FORMATS, frame_rows, to_document
from doorward.pdp.solutions import Solution, solutions_of
from doorward.rego import (
    UNDEFINED,
    CompileError,
    Engine,
    Environment,
    EvalError,
    Options,
    Query,
    RegoError,
    Undefined,
    Value,
    compile,
)
from doorward.rego.golang import indent, object_text
from doorward.rego.shared import Capabilities, Span, Timers, VerifiedTokens, within

if TYPE_CHECKING:
    from doorward.cli.partial import Residual
    from doorward.rego import Explanation, Partial
    from doorward.rego.shared import Entry, Tracer
    from doorward.search.changes import Change

__all__ = ["command"]

_FORMATS: Final = ("json", "values", "bindings", "pretty", "source", "raw", "discard")


@record
class _Request:
    """The options of one call of `doorward eval`."""

    query: str
    sources: Sources
    schema: str | None
    input: Value | Undefined
    package: str
    imports: Sequence[str]
    strict: bool
    strict_builtin_errors: bool
    show_builtin_errors: bool
    v0: bool
    deadline: float | None
    explain: str
    coverage: bool
    profile: bool
    metrics: bool
    capabilities: Capabilities | None
    builtins: Sequence[str]
    residual: Residual | None
    """The options of partial evaluation; None to evaluate fully."""


@record
class _Answer:
    """The result of a query, with the reports that were requested."""

    results: list[Solution] = field(default_factory=list)
    error: RegoError | LoadError | None = None
    explanation: Explanation | None = None
    coverage: str = ""
    profile: Sequence[Entry] = ()
    metrics: Sequence[Mapping[str, int]] = ()
    """The metrics of each evaluation; empty unless requested."""
    is_stopped: bool = False
    """True if `error` stopped the evaluation; an error of a built-in may be only reported."""
    partial: Partial | None = None


@click.command(
    "eval",
    epilog="""\b
Examples:
  doorward eval -d policy.rego -i input.json 'data.envoy.authz.allow'
  doorward eval -d policy.rego -d data.json --format pretty 'data.roles[name]'
  echo '{"x": 1}' | doorward eval --stdin-input --format raw 'input.x + 1'
  doorward eval --why -d policy.rego -i input.json data.envoy.authz.allow   # why denied?
  doorward eval --why --request docker -i call.json -d policies/ data.policy.docker.authz
  doorward eval --fail -d policy.rego 'data.envoy.authz.allow == true'   # 1 if undefined
""",
)
@argument("query", nargs=-1, help="Query to evaluate, such as data.authz.allow.")
@data_option
@bundle_option
@schemas.option
@click.option("-i", "--input", "inputs", multiple=True, metavar="PATH", help="Input document.")
@click.option("-I", "--stdin-input", is_flag=True, help="Read the input from standard input.")
@click.option(
    "--request",
    type=click.Choice(["envoy", "docker"]),
    help="The input is a captured request: of Envoy (a CheckRequest), or of the Docker "
    "daemon to a plugin.",
)
@click.option("--stdin", is_flag=True, help="Read the query from standard input.")
@style_option(*_FORMATS, default="json")
@click.option(
    "--explain",
    type=click.Choice(["off", "notes", "fails", "full", "debug"]),
    default="off",
    show_default=True,
    help="Explain the evaluation: notes of `trace`, failures, or everything.",
)
@click.option(
    "--var-values",
    is_flag=True,
    help="Accepted for compatibility with OPA: values of variables are always shown.",
)
@click.option("--why", is_flag=True, help="Print only the conditions that led to the result.")
@click.option("--coverage", is_flag=True, help="Report the lines that were evaluated.")
@click.option("--profile", is_flag=True, help="Report the expressions that took longest.")
@click.option(
    "--profile-limit", default=10, show_default=True, help="Number of rows in the profile."
)
@click.option(
    "--profile-sort",
    multiple=True,
    type=click.Choice(["total_time_ns", "num_eval", "file", "line"]),
    help="Sort key of the profile; repeatable.",
)
@click.option(
    "--metrics", is_flag=True, help="Report the times of parsing, compiling and evaluating."
)
@click.option("--instrument", is_flag=True, help="Same as --metrics.")
@click.option("--fail", is_flag=True, help="Exit with 1 if the query is undefined.")
@click.option("--fail-defined", is_flag=True, help="Exit with 1 if the query is defined.")
@click.option(
    "--strict-builtin-errors",
    is_flag=True,
    help="Fail if a call of a built-in fails; by default the call is undefined.",
)
@click.option(
    "--show-builtin-errors",
    is_flag=True,
    help="Print the errors of built-ins; the calls stay undefined.",
)
@click.option(
    "-S", "--strict", is_flag=True, help="Apply strict mode: report unused imports and variables."
)
@click.option("--package", default="", help="Package in which the query is evaluated.")
@click.option("--import", "imports", multiple=True, help="Import for the query; repeatable.")
@click.option(
    "--ignore",
    multiple=True,
    help="Skip files and folders with this name or pattern, such as '.*', in folders; repeatable.",
)
@click.option("--pretty-limit", default=0, help="Maximum width of table cells; 0 for no limit.")
@click.option(
    "--timeout",
    default="0s",
    metavar="DURATION",
    help="Time limit for the evaluation, such as 500ms; 0s sets none.",
)
@capabilities.option
@extensions.option
@saved_programs.option
@click.option("--v0-compatible", is_flag=True, help="Read policies and query as Rego v0.")
@click.option("--v1-compatible", is_flag=True, hidden=True)
@click.option(
    "-p", "--partial", "partially", is_flag=True, help="Evaluate partially, and print the residual."
)
@click.option(
    "-u",
    "--unknowns",
    multiple=True,
    metavar="PATH",
    help="With --partial: document to treat as unknown, such as input.user; repeatable. "
    "Default: input.",
)
@click.option(
    "--disable-inlining",
    multiple=True,
    metavar="PATH",
    help="With --partial: do not inline this rule; repeatable.",
)
@click.option("--shallow-inlining", is_flag=True, help="With --partial: inline no rules.")
@click.option(
    "--nondeterministic-builtins",
    "--nondeterminstic-builtins",  # as OPA writes it
    is_flag=True,
    help="With --partial: call built-ins that are not deterministic, such as the clock.",
)
@click.option("-O", "--optimize", default=0, hidden=True)  # it would answer the same, later
@click.option("-e", "--entrypoint", multiple=True, hidden=True)
@click.option(
    "--count",
    type=click.IntRange(1),
    default=1,
    help="Number of evaluations, whose times --metrics reports; the result printed is the first.",
)
@click.option("--disable-early-exit", is_flag=True, hidden=True)  # ways of OPA's to be slower
@click.option("--disable-indexing", is_flag=True, hidden=True)
@click.option("-t", "--target", type=OneOf("rego", flag="-t, --target"), hidden=True)
@click.option("--optimize-store-for-read-speed", is_flag=True, expose_value=False, hidden=True)
def command(query: tuple[str, ...], **options: Any) -> int:
    """Evaluate QUERY on policies, data and an input, and print its results.

    The exit code is 0, 1 as --fail and --fail-defined define it, or 2 on an error.
    """
    if options["fail"] and options["fail_defined"]:
        raise click.UsageError("specify --fail or --fail-defined but not both")
    residual = _residual(options) if options["partially"] else None
    if residual is None and options["style"] == "source":
        raise click.UsageError("invalid output format for evaluation")
    if options["optimize"] > 0 and not options["entrypoint"]:
        click.echo("bundle optimizations require at least one entrypoint", err=True)
        return 2
    text = read_query(query, stdin=options["stdin"], stdin_input=options["stdin_input"])
    try:
        input = read_input(
            options["inputs"], stdin=options["stdin_input"], request=options["request"]
        )
    except LoadError as error:
        click.echo(error.messages[0], err=True)
        return 2
    request = _Request(
        query=text,
        sources=Sources(
            paths=options["data"],
            bundles=options["bundle"],
            ignore=options["ignore"],
            v0=options["v0_compatible"],
        ),
        schema=options["schema"],
        input=input,
        package=options["package"],
        imports=options["imports"],
        strict=options["strict"],
        strict_builtin_errors=options["strict_builtin_errors"],
        show_builtin_errors=options["show_builtin_errors"],
        v0=options["v0_compatible"],
        capabilities=options["capabilities"],
        builtins=options["builtins"],
        deadline=seconds(options["timeout"], "--timeout"),
        explain="fails" if options["why"] and options["explain"] == "off" else options["explain"],
        coverage=options["coverage"],
        profile=options["profile"] or bool(options["profile_sort"]),
        metrics=any(options[name] for name in ("metrics", "instrument", "profile", "profile_sort")),
        residual=residual,
    )
    if residual is not None and request.explain != "off":
        click.echo("--partial has no explanation: --explain is ignored", err=True)
        request = replace(request, explain="off")
    if request.profile and options["count"] > 1:
        raise click.UsageError("--profile cannot be combined with --count")
    if options["why"] and residual is None:
        # JSON is the default of `--format`: an explanation is text unless it was asked for.
        return _why(request, as_json=_is_given("style") and options["style"] == "json")
    return _evaluate(request, options["style"], options["pretty_limit"], options)


def _residual(options: dict[str, Any]) -> Residual:
    """Return the options of --partial; raise UsageError if they do not fit the output format.

    `input` is unknown unless --unknowns names documents.
    """
    from doorward.cli.partial import Residual, check  # few calls ask for it

    residual = Residual(
        unknowns=options["unknowns"] or ("input",),
        disable_inlining=options["disable_inlining"],
        shallow=options["shallow_inlining"],
        nondeterministic=options["nondeterministic_builtins"],
    )
    check(residual, options["style"])
    return residual


def _is_given(option: str) -> bool:
    """Return True if the user gave the option instead of its default."""
    source = click.get_current_context().get_parameter_source(option)
    return source is not ParameterSource.DEFAULT


def _evaluate(request: _Request, style: str, limit: int, options: dict[str, Any]) -> int:
    """Evaluate the query --count times, print the result of the first and return the exit code.

    2 after an error, 1 if --fail or --fail-defined is met, else 0.
    """
    answer = _answer(request)
    more = [_answer(request).metrics for _ in range(options["count"] - 1)]
    answer = replace(answer, metrics=[*answer.metrics, *chain.from_iterable(more)])
    order, most = options["profile_sort"], options["profile_limit"]
    answer = replace(answer, profile=in_order(answer.profile, order, most))
    try:
        # Values that share their parts are exponentially larger as text.
        with within(request.deadline):
            _show(answer, request, style, limit)
    except EvalError as error:
        answer = _Answer(error=error, is_stopped=True)
        _show(answer, request, style, limit)
    if answer.is_stopped:
        return 2
    defined = answer.results if answer.partial is None else answer.partial.queries
    if options["fail"] and not defined:
        return 1
    return 1 if options["fail_defined"] and defined else 0


def _why(request: _Request, *, as_json: bool) -> int:
    """Print why the result is as it is, and the smallest change of the input that makes it true; as
    one JSON document with `as_json`.

    Return exit code 2 after an error, else 0.
    """
    answer = _answer(request)
    if answer.explanation is None:
        assert answer.error is not None
        colors.echo(for_people(answer.error), "errors", err=True)
        return 2
    change = None if answer.is_stopped else _change(request, answer)
    if as_json:
        document = answer.explanation.to_document()
        if change is not None:
            document["change"] = change.document()
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        colors.echo(answer.explanation.text(full=request.explain in ("full", "debug")), "why")
        if change is not None:
            colors.echo(change.text(), "why")
    return 2 if answer.is_stopped else 0


def _change(request: _Request, answer: _Answer) -> Change | None:
    """Return the smallest change of the input that makes the document of the query true, or a
    `Change` which says that none was found.

    None, without a search, if the query is not a path such as `data.a.b`, there is no input, or the
    document is neither false nor undefined.
    """
    path = request.query.strip().split(".")
    is_document = path[0] == "data" and len(path) > 1 and all(map(str.isidentifier, path))
    values = [value for solution in answer.results for _, value in solution.expressions]
    if not is_document or request.input is UNDEFINED or values not in ([], [False]):
        return None
    from doorward.search.changes import smallest_change  # an answer that is true needs none

    engine = _engine(request, Timers(), traced=False)
    return smallest_change(engine, path[1:], request.input, now_ns=time.time_ns())


def _answer(request: _Request) -> _Answer:
    """Evaluate the query once and return its answer with the requested reports.

    Errors become part of the answer. Print a hint for a reference to a missing document that
    resembles another.
    """
    timers = Timers()
    if request.residual is not None:
        return _evaluate_partially(request, request.residual, timers)
    traced = request.explain != "off" or request.coverage or request.profile
    try:
        query = _prepare(request, timers, traced=traced)
    except (LoadError, RegoError) as error:
        nothing = _no_coverage() if request.coverage else ""
        return _Answer(error=_reword(error), coverage=nothing, is_stopped=True)
    answer = _evaluate_traced(query, request, timers) if traced else _plain(query, request, timers)
    if not answer.results and answer.error is None:
        for path, near in query.near_misses.items():
            click.echo(f"hint: there is no {path}: did you mean {near}?", err=True)
    return replace(answer, metrics=[timers.document()] if request.metrics else [])


def _no_coverage() -> str:
    """Return the coverage report of a query that evaluated no policy."""
    from doorward.testing.coverage import Coverage

    return Coverage().report({})


def _evaluate_partially(request: _Request, residual: Residual, timers: Timers) -> _Answer:
    """Evaluate the query partially and return the residual with the requested reports. A LoadError
    or RegoError is not raised: it becomes the `error` of an answer without a residual.
    """
    from doorward.cli.partial import evaluate
    from doorward.testing.tracers import BothPartial

    coverage, profile = None, None
    if request.coverage:
        from doorward.testing.coverage import Coverage

        coverage = Coverage()
    if request.profile:
        from doorward.rego.shared import Profile

        profile = Profile()
    both = BothPartial([coverage, profile]) if coverage and profile else None
    try:
        engine = _engine(request, timers, traced=False)
        with timers.measure("rego_partial_eval"):
            left = evaluate(
                engine,
                residual,
                request.query,
                request.input,
                deadline=request.deadline,
                package=request.package,
                imports=request.imports,
                strict_builtin_errors=request.strict_builtin_errors,
                tracer=both or coverage or profile,
            )
    except (LoadError, RegoError) as error:
        nothing = _no_coverage() if request.coverage else ""
        return _Answer(error=_reword(error), coverage=nothing, is_stopped=True)
    return _Answer(
        partial=left,
        coverage=coverage.report(engine.trees) if coverage else "",
        profile=profile.entries() if profile else [],
        metrics=[timers.document()] if request.metrics else [],
    )


def _engine(request: _Request, timers: Timers, *, traced: bool) -> Engine:
    """Load and compile the policies and return the engine with the data bound; with `traced` its
    queries can report to a tracer.

    Raise LoadError (also for an empty query) or RegoError.
    """
    if not request.query.strip():
        raise LoadError(["cannot evaluate empty query"])
    loaded = request.sources.load(timers)
    warn(loaded.notes)
    options = Options(
        v0=request.v0,
        rego_versions=loaded.rego_versions,
        strict=request.strict,
        registry=extensions.registry_for(request.builtins, request.sources.all_paths),
        capabilities=request.capabilities,
        schemas=schemas.read_schemas(request.schema),
        metadata=True,
        environment=Environment(tokens=VerifiedTokens(), on_print=_print),
        traced=traced,
        # Coverage is about the rules that the index leaves, as in OPA.
        indexed=request.coverage,
        timers=timers,
        saved=saved_programs.saved_programs(),
    )
    with gc_paused():
        engine = compile(loaded.modules, options).bind(loaded.data)
        engine.check_data()
    return engine


def _prepare(request: _Request, timers: Timers, *, traced: bool) -> Query:
    """Load the policies and return the compiled query; raise LoadError or RegoError. With `traced`
    it reports what it evaluates to tracers. `timers` gets the times of loading and compiling.
    """
    return _engine(request, timers, traced=traced).prepare(
        request.query,
        strict_builtin_errors=request.strict_builtin_errors,
        deadline=request.deadline,
        package=request.package,
        imports=request.imports,
    )


def _reword(error: LoadError | RegoError) -> LoadError | RegoError:
    """Return the error to print: a LoadError with the text of `opa eval` for a bundle that cannot
    be read, any other error unchanged.
    """
    from doorward.bundles.bundle import BundleError

    if isinstance(error, BundleError):
        return LoadError([f"loading error: {error}"])
    return error


def _plain(query: Query, request: _Request, timers: Timers) -> _Answer:
    """Return the answer of an evaluation without tracers; an evaluation error leaves no results."""
    evaluation = query.evaluation(request.input)
    try:
        with timers.measure("rego_query_eval"):
            rows = query.rows_of(evaluation)
        with within(request.deadline):
            results = list(solutions_of(query, rows))
    except EvalError as error:
        return _Answer(error=error, is_stopped=True)
    met = evaluation.errors if request.show_builtin_errors else []
    return _Answer(results, _distinct(met) if met else None)


def _evaluate_traced(query: Query, request: _Request, timers: Timers) -> _Answer:
    """Evaluate the query with the tracers that `request` needs (explanation, coverage, profile),
    and return the answer with their reports.

    An EvalError becomes part of the answer, beside the reports up to it; so do the errors of
    built-ins with --show-builtin-errors, which do not stop the evaluation.
    """
    # What only a traced evaluation needs is not brought in for the others.
    from doorward.rego import Explanation
    from doorward.rego.shared import Mask, Profile, Recorder
    from doorward.testing.coverage import Coverage
    from doorward.testing.tracers import Both

    recorder, coverage, profile = Recorder(), Coverage(), Profile()
    evaluation = query.evaluation(request.input)
    choices: list[tuple[Tracer, bool]] = [
        (profile, request.profile),
        (recorder, request.explain != "off"),
        (coverage, request.coverage),
    ]
    # One alone is called without a detour, and times do not include the cost of tracers that
    # nobody asked for.
    tracers = [tracer for tracer, is_chosen in choices if is_chosen]
    evaluation.tracer = tracers[0] if len(tracers) == 1 else Both(tracers)
    rows: list[tuple[Any, ...]] = []
    results: list[Solution] = []
    error: RegoError | None = None
    stopped: EvalError | None = None
    try:
        with timers.measure("rego_query_eval"):
            rows = query.rows_of(evaluation)
        with within(request.deadline):
            results = list(solutions_of(query, rows))
    except EvalError as raised:
        error = stopped = raised
    if request.show_builtin_errors and evaluation.errors:
        error = _distinct(evaluation.errors)
    answer = rows[0][-1] if rows else UNDEFINED
    registry = query.engine.registry
    mask = Mask(request.input, query.engine.data)
    explanation = Explanation(
        request.query, recorder, registry, mask, answer, stopped, request.deadline
    )
    report = coverage.report(query.engine.trees) if request.coverage else ""
    explained = explanation if request.explain != "off" else None
    entries = profile.entries() if request.profile else []
    return _Answer(results, error, explained, report, entries, is_stopped=stopped is not None)


def _distinct(errors: Sequence[EvalError]) -> RegoError:
    """Return one error with the first diagnostic of each error; equal ones are there once."""
    return CompileError(dict.fromkeys(error.diagnostics[0] for error in errors))


def _print(text: str, _span: Span) -> None:
    click.echo(text, err=True)


def _show(answer: _Answer, request: _Request, style: str, limit: int) -> None:
    """Print the answer in the format `style`. The formats json and discard contain errors and all
    reports; in others an error goes to standard error in place of the results, and only pretty has
    reports.

    `limit` is the maximum width of table cells; 0 for no limit.
    """
    if style in ("json", "discard"):
        click.echo(_as_json(answer, request, discard=style == "discard"))
        return
    if answer.explanation is not None and style == "pretty":
        for line in _explain(answer.explanation, request):
            click.echo(line)
    if answer.error is not None:
        colors.echo(for_people(answer.error), "errors", err=True)
        return
    if answer.partial is not None:
        from doorward.cli.partial import format_partial

        click.echo(format_partial(answer.partial, style), nl=False)
    else:
        click.echo(FORMATS[style](answer.results, limit), nl=False)
    if answer.coverage and style == "pretty":
        percent = json.loads(answer.coverage)["coverage"]
        click.echo(frame_rows(("Overall Coverage", f"{percent:.2f}")), nl=False)
    if answer.metrics and style == "pretty":
        click.echo(metrics_table(answer.metrics), nl=False)
    if answer.profile and style == "pretty":
        click.echo(profile_table(answer.profile), nl=False)


def _explain(explanation: Explanation, request: _Request) -> list[str]:
    """Return the lines of an explanation in the form that `--explain` names: notes, fails or
    full.
    """
    if request.explain == "notes":
        return explanation.notes()
    return explanation.text(full=request.explain != "fails").splitlines()


def _as_json(answer: _Answer, request: _Request, *, discard: bool) -> str:
    """Return the answer as the indented JSON document of `opa eval`; members that would be empty
    are left out. With `discard` the result, if there is one, is `"discarded"`.
    """
    fields: dict[str, str] = {}
    if answer.error is not None:
        fields["errors"] = documents_text(answer.error, sort_keys=discard)
    if answer.partial is not None:
        from doorward.cli.partial import document

        fields["partial"] = document(answer.partial)
    if answer.results and discard:
        fields["result"] = '"discarded"'
    elif answer.results:
        fields["result"] = "[" + ",".join(map(to_document, answer.results)) + "]"
    if answer.explanation is not None:
        explained: Any = answer.explanation.to_document()
        if request.explain == "notes":
            explained = answer.explanation.notes()
        fields["explanation"] = json.dumps(explained, ensure_ascii=False)
    if answer.metrics:
        name, text = metrics_field(answer.metrics)
        fields[name] = text
    if answer.coverage:
        fields["coverage"] = answer.coverage
    if answer.profile:
        fields["profile"] = profile_document(answer.profile)
    return indent(object_text(fields), "", "  ")
