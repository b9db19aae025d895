"""`doorward inspect`: what a bundle or a policy holds, as `opa inspect` shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import click

from doorward.base.records import mutable, record
from doorward.bundles.bundle import SIGNATURES, read_bundle
from doorward.bundles.loader import LoadError
from doorward.bundles.manifest import Manifest
from doorward.bundles.sources import Sources
from doorward.cli.arguments import argument, style_option
from doorward.cli.results import table
from doorward.rego import REGISTRY
from doorward.rego.golang import JSONError, indent, marshal, ordered_text, read_json
from doorward.rego.shared import ParseError, Source
from doorward.rego.tools import (
    Module,
    Scalar,
    module_to_json,
    parse_module,
    path_text,
    required_builtins,
    to_declaration,
)

__all__ = ["command"]

_DATA: Final = ("data.json", "data.yaml", "data.yml")
_OF_PACKAGES: Final = ("package", "subpackages")


@record
class _Annotation:
    """A METADATA block: its fields, its position, and the path of the package or rule it belongs
    to.
    """

    fields: Mapping[str, Any]
    file: str
    row: int
    path: Sequence[str]
    rule: str = ""

    def document(self) -> dict[str, Any]:
        """Return the annotation as `opa inspect` prints it in JSON, with location and path."""
        terms = [{"type": "string", "value": name} for name in self.path]
        return {
            "annotations": self.fields,
            "location": {"file": self.file, "row": self.row, "col": 1},
            "path": [{"type": "var", "value": "data"}, *terms],
        }


@mutable
class _Content:
    """The content of a bundle or file; `namespaces` has the names of files by the package or data
    path that they define.
    """

    manifest: Manifest | None = None
    namespaces: dict[str, list[str]] = field(default_factory=dict)
    said: list[_Annotation] = field(default_factory=list)
    signatures: Any = field(default_factory=dict)
    modules: list[Module] = field(default_factory=list)

    def add(self, path: Sequence[str], file: str) -> None:
        self.namespaces.setdefault(path_text(path), []).append(file)


@click.command(
    "inspect",
    epilog="""\b
Examples:
  doorward inspect bundle.tar.gz
  doorward inspect -a policies/           # what METADATA says of packages and rules, too
  doorward inspect -f json policy.rego
""",
)
@argument("paths", nargs=-1, help="Bundle, folder or policy to show.")
@click.option("-a", "--annotations", is_flag=True, help="Include METADATA.")
@style_option("pretty", "json", default="pretty")
@click.option("--v0-compatible", is_flag=True, help="Read policies as Rego v0.")
@click.option("--v1-compatible", is_flag=True, hidden=True)
def command(
    paths: tuple[str, ...],
    annotations: bool,
    style: str,
    v0_compatible: bool,
    v1_compatible: bool,
) -> int:
    """Show the manifest, the namespaces and the METADATA of a bundle, a folder or a policy.

    Signatures are not verified and nothing is compiled. The JSON output also lists the built-ins
    in use.
    """
    if len(paths) != 1:
        raise click.UsageError("specify exactly one OPA bundle or path")
    try:
        content = _read(paths[0], v0=v0_compatible)
    except (LoadError, ParseError) as error:
        text = str(error)
        if isinstance(error, ParseError):
            text = text.replace("occurred:", "occurred during loading:", 1)
        click.echo(f"error: {text}", err=True)
        return 1
    text = _json(content, annotations) if style == "json" else _pretty(content, annotations)
    click.echo(text, nl=style == "json")
    return 0


def _read(path: str, *, v0: bool) -> _Content:
    """Return the content of a bundle, or of a single policy or data file. Raise LoadError, also for
    signatures that are not JSON, or ParseError.

    Files of a folder are named by path, files of an archive by their name in it.
    """
    if os.path.isfile(path) and not path.endswith((".gz", ".tgz")):
        loaded = Sources([path], v0=v0).load()
        content = _Content()
        if not loaded.modules:
            content.add((), path)
        _add_policies(content, loaded.modules, {}, v0=v0)
        return content
    # As in OPA, which does not read the data here: malformed data is not an error.
    bundle = read_bundle(path, v0=v0, with_data=False)
    content = _Content(manifest=bundle.manifest)
    # A folder's files are named by their path; those of an archive by their name in it.
    above = "" if bundle.path == "." or os.path.isfile(path) else f"{bundle.path}/"
    prefix = f"{bundle.path}/" if os.path.isfile(path) else ""
    _add_policies(
        content,
        {file.removeprefix(prefix): text for file, text in bundle.modules.items()},
        {file.removeprefix(prefix): version for file, version in bundle.rego_versions.items()},
        v0=v0,
    )
    signatures = dict(bundle.members).get(SIGNATURES)
    if signatures is not None:
        try:
            content.signatures = read_json(signatures)
        except JSONError as error:
            raise LoadError([f"bundle load failed on signatures decode: {error}"]) from None
    for name, _ in bundle.members:
        if name.rpartition("/")[2] in _DATA:
            content.add([part for part in name.split("/")[:-1] if part], above + name)
    return content


def _add_policies(
    content: _Content, modules: Mapping[str, str], versions: Mapping[str, int], *, v0: bool
) -> None:
    """Parse policies, and add them, their packages and annotations to `content`; the annotations
    are then sorted as in OPA. Raise ParseError for a policy that is not valid.
    """
    for file, text in modules.items():
        version = versions.get(file)
        module = parse_module(
            Source(file, text), v0=v0 if version is None else version == 0, annotations=True
        )
        content.add(module.package.path, file)
        content.modules.append(module)
        content.said += _metadata(file, module)
    # As in OPA: by what is described, then by file and row.
    content.said.sort(key=lambda note: ([str(part) for part in note.path], note.file))


def _metadata(file: str, module: Module) -> Iterator[_Annotation]:
    """Yield the annotations of a policy: those of its package, then those of its rules, each block
    once, at the first rule that it describes. `file` is the name of the policy to show.
    """
    document = module_to_json(module)
    package = module.package
    for fields in document.get("annotations") or ():
        if fields["scope"] in _OF_PACKAGES:
            yield _Annotation(fields, file, package.span.row, package.path)
    seen = set()
    for rule, as_json in zip(module.rules, document.get("rules") or (), strict=True):
        names = [str(arg.value) for arg in rule.head.ref.args if isinstance(arg, Scalar)]
        name = ".".join([rule.head.ref.head.name, *names])  # type: ignore[union-attr]  # a Var
        for block, fields in zip(rule.annotations, as_json.get("annotations") or (), strict=True):
            if block.span not in seen:
                seen.add(block.span)
                path = [*package.path, *name.split(".")]
                yield _Annotation(fields, file, rule.span.row, path, name)


# As JSON


def _json(content: _Content, annotations: bool) -> str:
    """Return the JSON document that `opa inspect --format json` prints, with the built-ins that the
    policies call. With `annotations` it also has their METADATA.
    """
    document: dict[str, Any] = {}
    manifest = content.manifest
    if manifest is not None:
        document["manifest"] = {"revision": manifest.revision, "roots": list(manifest.roots)}
        if manifest.rego_version is not None:
            document["manifest"]["rego_version"] = manifest.rego_version
        if manifest.file_rego_versions:
            document["manifest"]["file_rego_versions"] = dict(manifest.file_rego_versions)
        if manifest.metadata:
            document["manifest"]["metadata"] = dict(manifest.metadata)
    document["signatures_config"] = content.signatures
    document["namespaces"] = dict(sorted(content.namespaces.items()))
    if annotations and content.said:
        document["annotations"] = [note.document() for note in content.said]
    builtins = [_declaration(name) for name in required_builtins(content.modules, REGISTRY)]
    document["capabilities"] = {
        **({"builtins": builtins} if builtins else {}),
        "features": ["rego_v1"],
    }
    return indent(ordered_text(document), "", "  ")


def _declaration(name: str) -> dict[str, Any]:
    """Return the declaration of a built-in as JSON, with keys in OPA's order. KeyError for an
    unknown name.
    """
    declaration = to_declaration(REGISTRY[name])
    # OPA sorts the keys of types, and no others.
    return declaration | {"decl": read_json(marshal(declaration["decl"]))}


# For people


def _pretty(content: _Content, annotations: bool) -> str:
    """Return the text that `opa inspect` prints: the tables of the manifest and the namespaces and,
    with `annotations`, the METADATA; empty parts are left out.
    """
    parts: list[str] = []
    manifest = content.manifest
    if manifest is not None and manifest != Manifest():
        parts.append("MANIFEST:\n" + table(["FIELD", "VALUE"], _manifest_rows(manifest)))
    if content.namespaces:
        rows = [
            (name if n == 0 else "", file)
            for name, files in sorted(content.namespaces.items())
            for n, file in enumerate(sorted(files))
        ]
        parts.append("NAMESPACES:\n" + table(["NAMESPACE", "FILE"], rows))
    if annotations and content.said:
        parts.append("ANNOTATIONS:\n" + "".join([_section(note) for note in content.said]))
    return "".join(parts)


def _manifest_rows(manifest: Manifest) -> list[tuple[str, str]]:
    """Return the rows of the manifest's table; a single root `""`, the default, is left out."""
    rows: list[tuple[str, str]] = []
    if manifest.rego_version is not None:
        rows.append(("Rego Version", str(manifest.rego_version)))
    if manifest.revision:
        rows.append(("Revision", manifest.revision))
    roots = sorted(manifest.roots)
    rows += [("Roots" if n == 0 else "", root) for n, root in enumerate(roots) if roots != [""]]
    if manifest.metadata:
        rows.append(("Metadata", ordered_text(manifest.metadata, sort_keys=True)))
    return rows


def _section(note: _Annotation) -> str:
    """Return the text of one annotation: title, description, package, rule, location, scope,
    entrypoint and the lists that it has.
    """
    fields = note.fields
    package = ".".join(note.path[: len(note.path) - len(note.rule.split("."))])
    if not note.rule:
        package = ".".join(note.path)
    title = fields.get("title") or ".".join(note.path)
    lines = [title, "=" * len(title), ""]
    if fields.get("description"):
        lines += [fields["description"], ""]
    lines.append(f"Package:  {package}")
    if note.rule:
        lines.append(f"Rule:     {note.rule}")
    lines += [f"Location: {note.file}:{note.row}", f"Scope: {fields['scope']}"]
    if fields.get("entrypoint"):
        lines.append("Entrypoint: true")
    lines.append("")
    for name, items in (
        ("Organizations", fields.get("organizations")),
        ("Authors", [_author(each) for each in fields.get("authors") or ()]),
        ("Schemas", [_schema(each) for each in fields.get("schemas") or ()]),
        ("Related Resources", _resources(fields.get("related_resources") or ())),
        ("Custom", [f"{k}: {ordered_text(v)}" for k, v in (fields.get("custom") or {}).items()]),
    ):
        if items:
            lines += [f"{name}:", *[f" {item}" for item in items], ""]
    return "\n".join(lines) + "\n"


def _author(author: Mapping[str, str]) -> str:
    email = f"<{author['email']}>" if author.get("email") else ""
    return " ".join([part for part in (author.get("name"), email) if part])


def _schema(schema: Mapping[str, Any]) -> str:
    """Return the line of a schema annotation: its path, then the schema's name or its
    definition.
    """
    path = ".".join([str(term["value"]) for term in schema["path"]])
    if "schema" in schema:
        return f"{path}: " + ".".join([str(term["value"]) for term in schema["schema"]])
    return f"{path}: {ordered_text(schema.get('definition'), sort_keys=True)}"


def _resources(resources: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a line for each related resource: its address, and its description in a second
    column.
    """
    width = max([len(each["ref"]) for each in resources], default=0)
    rows = [(each["ref"], each.get("description", "")) for each in resources]
    return [f"{ref.ljust(width)} {source}" if source else ref for ref, source in rows]
