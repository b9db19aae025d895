"""`doorward build`: policies and data as one bundle, as `opa build` makes it.

Policies are formatted, data is one document, and everything is compiled before anything is written.
"""

from __future__ import annotations

import gzip
import io
import os
import posixpath
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, Final

import click

from doorward.base.collector import gc_paused
from doorward.base.os_errors import io_message
from doorward.base.records import record, replace
from doorward.bundles.bundle import Bundle, read_bundle
from doorward.bundles.loader import LoadError, unite_documents
from doorward.bundles.manifest import Manifest, ManifestError
from doorward.bundles.optimize import OptimizeError, Optimizer, entrypoints_of
from doorward.bundles.signatures import ALGORITHMS, SignatureError, Verification
from doorward.bundles.signing import sign
from doorward.bundles.sources import Sources
from doorward.cli import capabilities
from doorward.cli.arguments import argument
from doorward.cli.errors import OneOf
from doorward.cli.sign import read_claims, read_key
from doorward.cli.waiting import waiting
from doorward.rego import Options, RegoError, Value, compile
from doorward.rego.golang import JSONError, marshal, ordered_text
from doorward.rego.shared import PARSE_ERROR, Capabilities, Key, Source
from doorward.rego.tools import Module, Target, format_policy

__all__ = ["command"]

_DATA: Final = "/data.json"
_MANIFEST: Final = "/.manifest"


class _BuildError(Exception):
    """A bundle cannot be built; the message is in OPA's words."""


@record
class _Parts:
    """The parts of the bundle that `doorward build` writes."""

    modules: Mapping[str, str]
    data: dict[Key, Value]
    roots: Sequence[str] = ("",)
    revision: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    """The Rego version of each policy for which a manifest gives one."""


class _Level(click.ParamType[int]):
    """The value of -O, refused in OPA's words if it is not an integer.

    Values below 0 count as 0, values above 2 as 2.
    """

    name = "level"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; raise UsageError in the words of Go's `strconv.ParseInt` for any other
        text.
        """
        try:
            return int(value)
        except ValueError:
            raise click.UsageError(
                f'invalid argument "{value}" for "-O, --optimize" flag: '
                f'strconv.ParseInt: parsing "{value}": invalid syntax',
                ctx,
            ) from None


@click.command(
    "build",
    epilog="""\b
Examples:
  doorward build policies/ data.json
  doorward build -b bundle/ -r v1.2 -o release.tar.gz
  doorward build -b bundle/ --signing-key private.pem
""",
)
@argument("paths", nargs=-1, help="Files and folders with policies and data.")
@click.option("-b", "--bundle", is_flag=True, help="Read PATHS as bundles: folders or .tar.gz.")
@click.option(
    "-o",
    "--output",
    default="bundle.tar.gz",
    show_default=True,
    help="File to write the bundle to.",
)
@click.option("-r", "--revision", help="Revision to write into the manifest.")
@click.option(
    "-e",
    "--entrypoint",
    multiple=True,
    help="Path of a document that clients of the bundle ask for, such as authz/allow; repeatable.",
)
@click.option(
    "-O",
    "--optimize",
    type=_Level(),
    default=0,
    show_default=True,
    metavar="LEVEL",
    help="Evaluate known parts in advance: 1 keeps references to rules, 2 inlines them.",
)
@click.option(
    "--partial-namespace",
    default="partial",
    show_default=True,
    metavar="NAME",
    help="With -O: name of the package for the rules that the optimization generates.",
)
# Of OPA's other targets, which are refused.
@click.option("--prune-unused", is_flag=True, expose_value=False, hidden=True)
@click.option("--wasm-include-print", is_flag=True, expose_value=False, hidden=True)
@click.option("--debug", is_flag=True, help="Report each step on standard error.")
# Symbolic links are always followed, and refused where they lead out of a bundle.
@click.option("--follow-symlinks", is_flag=True, expose_value=False, hidden=True)
@click.option(
    "-t",
    "--target",
    type=OneOf("rego", "wasm", "plan", flag="-t, --target"),
    default="rego",
    show_default=True,
    help="Form of the policies in the bundle; only rego is supported.",
)
@click.option(
    "--ignore",
    multiple=True,
    help="Skip files and folders with this name or pattern, such as '.*', in folders; repeatable.",
)
@click.option("--v0-compatible", is_flag=True, help="Read and write policies as Rego v0.")
@click.option("--v1-compatible", is_flag=True, expose_value=False, hidden=True)
@capabilities.option
@click.option(
    "--signing-key",
    metavar="KEY",
    help="Sign the bundle with this key: a secret, or a PEM file with a private key.",
)
@click.option("--signing-plugin", hidden=True, help="Refused: signing plugins are not supported.")
@click.option(
    "--claims-file", metavar="FILE", help="JSON file with claims to add to the new signature."
)
@click.option(
    "--verification-key",
    metavar="KEY",
    help="Verify the bundles in PATHS with this key: a secret, or a PEM file with a public key.",
)
@click.option(
    "--verification-key-id",
    default="default",
    show_default=True,
    metavar="NAME",
    help="Key name to write into the new signature, as its claim `keyid`; not used with "
    "--claims-file.",
)
@click.option(
    "--signing-alg",
    type=click.Choice(ALGORITHMS),
    default="RS256",
    show_default=True,
    metavar="NAME",
    help="Algorithm of the new signature and of the signatures in PATHS.",
)
@click.option(
    "--scope", default="", help="Value that the claim `scope` of the signatures in PATHS must have."
)
@click.option(
    "--exclude-files-verify",
    multiple=True,
    help="Do not verify files of bundles in PATHS with this name or pattern; repeatable.",
)
@gc_paused()
def command(
    paths: tuple[str, ...],
    bundle: bool,
    output: str,
    revision: str | None,
    entrypoint: tuple[str, ...],
    optimize: int,
    target: str,
    **options: Any,
) -> int:
    """Build a bundle from the policies and data in PATHS.

    Nothing is written unless everything compiles. `doorward run` and OPA can load the bundle.
    """
    if not paths:
        raise click.UsageError("expected at least one path")
    if target == "plan" and not entrypoint:
        return _fail("plan compilation requires at least one entrypoint")
    if target != "rego":
        return _fail(f"--target {target} is not supported: use --target rego")
    report = _report if options["debug"] else _ignore
    try:
        _check_signing(paths, options, bundle=bundle)
        with waiting("reading policies and data"):
            parts = _bundles(paths, options) if bundle else _files(paths, options)
        report(f"read {len(parts.modules)} policies from {', '.join(paths)}")
        with waiting("compiling"):
            parsed = _check(parts, options)
        report("compiled all policies")
        if optimize > 0:
            with waiting("optimizing"):
                parts, parsed = _optimize(parts, entrypoint, optimize, options)
            report(f"optimized at level {optimize}: {len(parts.modules)} policies")
        members = _members(parts, revision, parsed, v0=options["v0_compatible"])
        if options["signing_key"] is not None:
            members.append(("/.signatures.json", _signatures_for(members, options)))
        with waiting("packing"):
            _write(output, _archive(members))
        report(f"wrote {len(members)} files to {output}")
    except ManifestError as error:
        return _fail(f"bundle merge failed: {error}")
    except (_BuildError, LoadError, OptimizeError, RegoError, SignatureError, JSONError) as error:
        return _fail(str(error))
    return 0


def _report(step: str) -> None:
    click.echo(f"debug: {step}", err=True)


def _ignore(step: str) -> None:
    """Report nothing: the command runs without --debug."""


def _check_signing(paths: Sequence[str], options: Mapping[str, Any], *, bundle: bool) -> None:
    """Raise _BuildError for --signing-plugin and --claims-file without --signing-key, and for a
    signing or verification key without --bundle. `options` are those of the command by name.

    Without --bundle also warn, on standard error, of each `.manifest` in a folder of `paths`, which
    is ignored.
    """
    key = options["signing_key"]
    if key is None and (options["signing_plugin"] or options["claims_file"]):
        raise _BuildError(
            "specify the secret (HMAC) or path of the PEM file containing the private key "
            "(RSA and ECDSA)"
        )
    if bundle:
        return
    if key is not None or options["verification_key"] is not None:
        raise _BuildError(
            "enable bundle mode (ie. --bundle) to verify or sign bundle files or directories"
        )
    for path in paths:
        if os.path.isfile(os.path.join(path, ".manifest")):
            click.echo(
                f'Warning: .manifest file found in "{path}" but -b flag not specified. '
                "Manifest will be ignored.",
                err=True,
            )


def _fail(message: str) -> int:
    # On standard output, where `opa build` prints it.
    click.echo(f"error: {message}")
    return 1


def _files(paths: Sequence[str], options: Mapping[str, Any]) -> _Parts:
    """Return policies and data from files and folders that are not bundles; _BuildError if that
    fails.
    """
    try:
        loaded = Sources(paths, ignore=options["ignore"], v0=options["v0_compatible"]).load()
    except LoadError as error:
        raise _BuildError(f"load error: {error}") from None
    return _Parts(loaded.modules, loaded.data, versions=loaded.rego_versions)


def _bundles(paths: Sequence[str], options: Mapping[str, Any]) -> _Parts:
    """Return the united content of bundles; signatures are verified if a key is given, and
    otherwise ignored. Revision and metadata remain only if there is one bundle. Raise _BuildError
    if one cannot be read, ManifestError if roots overlap, LoadError if two define a value.
    """
    key = options["verification_key"]
    verification = None
    if key is not None:
        algorithm, scope = options["signing_alg"], options["scope"]
        excluded = options["exclude_files_verify"]
        verification = Verification(read_key(key), algorithm, scope, excluded)
    bundles: list[Bundle] = []
    for path in paths:
        try:
            bundles.append(
                read_bundle(
                    path,
                    ignore=options["ignore"],
                    v0=options["v0_compatible"],
                    signed=verification is not None,
                    verification=verification,
                )
            )
        except LoadError as error:
            raise _BuildError(f"load error: {error}") from None
    manifests = [each.manifest for each in bundles]
    roots = [root for manifest in manifests for root in manifest.roots]
    Manifest(roots=tuple(roots))  # refuses roots that overlap
    only = manifests[0] if len(manifests) == 1 else Manifest()
    data: dict[Key, Value] = {}
    for each in bundles:
        data = unite_documents(data, each.data)
    return _Parts(
        modules={name: text for each in bundles for name, text in each.modules.items()},
        data=data,
        roots=roots,
        revision=only.revision,
        metadata=only.metadata,
        versions={name: v for each in bundles for name, v in each.rego_versions.items()},
    )


def _settings(parts: _Parts, options: Mapping[str, Any]) -> Options:
    """Return the compiler's options: the Rego version of the command and of each file, the
    capabilities, and that METADATA is read.
    """
    allowed: Capabilities | None = options["capabilities"]
    return Options(
        v0=options["v0_compatible"],
        rego_versions=parts.versions,
        capabilities=allowed,
        metadata=True,
    )


def _optimize(
    parts: _Parts, entrypoints: Sequence[str], level: int, options: Mapping[str, Any]
) -> tuple[_Parts, Mapping[str, Module]]:
    """Return the parts with policies optimized for their entrypoints, and these policies parsed.

    Entrypoints in METADATA count as well; _BuildError without any. The result has no revision and
    is compiled as a check.
    """
    settings = _settings(parts, options)
    paths = [tuple(each.strip("/").split("/")) for each in entrypoints]
    paths += [each for each in entrypoints_of(parts.modules, settings) if each not in paths]
    if not paths:
        raise _BuildError("bundle optimizations require at least one entrypoint")
    namespace = options["partial_namespace"]
    optimizer = Optimizer(settings, level == 1, namespace, parts.roots)
    modules = optimizer.optimize(parts.modules, parts.data, paths)
    roots = [*parts.roots]
    if not any(f"{namespace}/".startswith(f"{root}/" if root else "") for root in roots):
        roots.append(namespace)
    # It is another bundle: the revision of the one that it was made of would say otherwise.
    optimized = replace(parts, modules=modules, roots=roots, revision="")
    # What cannot be compiled must not become a bundle, whatever it was made of.
    return optimized, _check(optimized, options)


def _check(parts: _Parts, options: Mapping[str, Any]) -> Mapping[str, Module]:
    """Compile all policies with their data, and return the parsed policies.

    Raise _BuildError if one cannot be parsed, RegoError for other errors.
    """
    settings = _settings(parts, options)
    try:
        policies = compile(parts.modules, settings)
        policies.bind(parts.data, is_parsed=True).check_data()
        return policies.modules
    except RegoError as error:
        if any(each.code == PARSE_ERROR for each in error.diagnostics):
            text = str(error).replace("occurred:", "occurred during loading:", 1)
            raise _BuildError(f"load error: {text}") from None
        raise


def _members(
    parts: _Parts, revision: str | None, parsed: Mapping[str, Module], *, v0: bool
) -> list[tuple[str, bytes]]:
    """Return the files of the bundle as pairs of name and content: data, formatted policies,
    manifest.

    `parsed` has the policies as modules, so that they need not be parsed again. `revision` None:
    that of `parts`.
    """
    versions = {name: parts.versions.get(name, 0 if v0 else 1) for name in sorted(parts.modules)}
    common = 0 if versions and set(versions.values()) == {0} else 1
    if not versions and v0:
        common = 0
    manifest: dict[str, Any] = {
        "revision": parts.revision if revision is None else revision,
        "roots": list(parts.roots),
        "rego_version": common,
    }
    names = _member_names(versions)
    others = {names[name]: version for name, version in versions.items() if version != common}
    if others:
        manifest["file_rego_versions"] = others
    if parts.metadata:
        manifest["metadata"] = dict(parts.metadata)
    members = [(_DATA, marshal(parts.data).encode() + b"\n")]
    for name, version in versions.items():
        source = Source(name, parts.modules[name])
        target: Target = "v0" if version == 0 else "v1"
        formatted = format_policy(source, v0=version == 0, target=target, module=parsed.get(name))
        members.append((names[name], formatted.text.encode(errors="surrogatepass")))
    return [*members, (_MANIFEST, ordered_text(manifest).encode() + b"\n")]


def _member_names(files: Iterable[str]) -> dict[str, str]:
    """Return the name in the archive for each file, by its path. `..` at the beginning is dropped,
    so that no name leads out of the bundle: `../a.rego` becomes `/a.rego`. If two files get the
    same name, the second one gets a number.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for file in files:
        path = posixpath.normpath("/" + file.removeprefix("file://").lstrip("/"))
        stem, kind = posixpath.splitext(path)
        number = 1
        while path in taken:
            number += 1
            path = f"{stem}-{number}{kind}"
        taken.add(path)
        names[file] = path
    return names


def _signatures_for(members: Sequence[tuple[str, bytes]], options: Mapping[str, Any]) -> bytes:
    """Return the content of `.signatures.json` for the bundle's files.

    The claims are those in the file of --claims-file or, without it, only `keyid`, the id of the
    verification key. Raise LoadError or JSONError if the claims cannot be read, LoadError if the
    key cannot, and SignatureError if signing fails.
    """
    files = [(name.lstrip("/"), content) for name, content in members]
    claims = read_claims(options["claims_file"])
    if options["claims_file"] is None:
        claims = {"keyid": options["verification_key_id"]}
    if options["signing_plugin"] is not None:
        raise SignatureError(f"no signer exists under id {options['signing_plugin']}")
    return sign(files, read_key(options["signing_key"]), options["signing_alg"], claims)


def _archive(members: Sequence[tuple[str, bytes]]) -> bytes:
    """Return a `.tar.gz` of the members, names and contents; always the same bytes for the same
    members.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o600
            archive.addfile(info, io.BytesIO(content))
    # Without a time: the same policies must give the same digest.
    return gzip.compress(stream.getvalue(), mtime=0)


def _write(path: str, content: bytes) -> None:
    """Replace the file at `path` in one step by another content; raise _BuildError if that
    fails.
    """
    folder = os.path.dirname(path) or "."
    try:
        descriptor, new = tempfile.mkstemp(dir=folder, prefix=".bundle-")
    except OSError as error:
        raise _BuildError(io_message("open", path, error)) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        # `mkstemp` makes a file for its owner alone; the server of the bundle has to read it too.
        os.chmod(new, 0o644)
        os.replace(new, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(new)
        raise _BuildError(io_message("open", path, error)) from None
