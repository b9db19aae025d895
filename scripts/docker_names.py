"""The names that daemons read: from the router's source and the API's description of each version.

    scripts/docker_names.py MOBY_GIT_DIRECTORY > tests/docker/data/names.json

For each route: the versions that have it, the parameters of its query, and the leaves of its body.
Only names are written. Their types are in `src/doorward/docker/request/model/table.toml`;
`tests/docker/request/model/test_table.py` compares the two.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import yaml

VERSIONS: Final = {
    "20.10": "v20.10.24",
    "23": "v23.0.15",
    "24": "v24.0.9",
    "25": "v25.0.6",
    "26": "v26.1.5",
    "27": "v27.5.1",
    "28": "v28.5.2",
    "29": "docker-v29.7.2",
}
_ROUTERS: Final = ("api/server/router", "daemon/server/router")
_HELPERS: Final = ("api/server/httputils", "daemon/server/httputils")
_ROUTE: Final = re.compile(r'New(\w+)Route\("([^"]+)",\s*\w+\.(\w+)')
_FUNCTION: Final = re.compile(r"^func (?:\([^)]*\) )?(\w+)\(", re.MULTILINE)
_READ: Final = re.compile(
    r"(?:[rv]\.(?:Form|URL\.Query\(\))?\.?(?:FormValue\(|Get\(|Has\(|\[)|Form\[|query\.Get\("
    r"|(?:Int64|Uint32|Bool|Int)Value\w*\(r, |Value(?:OrZero|OrDefault)?\(r, )\"([^\"]+)\""
)
_HEADERS: Final = re.compile(r"Header\.Get\(\"[^\"]+\"")
_ARCHIVE: Final = re.compile(r"ArchiveFormValues\(")
_DECODE: Final = re.compile(r"DecodePlatform|FromJSON\(r\.Form")
_MAX_DEPTH: Final = 12
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_tree(repository: str, revision: str, folder: str) -> dict[str, str]:
    """The Go files below a folder of a revision, without tests."""
    command = ["git", f"--git-dir={repository}"]
    listed = subprocess.run(
        [*command, "ls-tree", "-r", "--name-only", revision, folder],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    paths = [each for each in listed.stdout.split() if each.endswith(".go")]
    return {
        path: subprocess.run(
            [*command, "show", f"{revision}:{path}"], capture_output=True, text=True, check=True
        ).stdout
        for path in paths
        if not path.endswith("_test.go")
    }


def find_routes(files: dict[str, str]) -> Iterator[tuple[str, str, set[str]]]:
    """Method, path and query parameters of each route in the routers' source."""
    folders: dict[str, str] = {}
    for path, text in sorted(files.items()):
        folder = path.rpartition("/")[0]
        folders[folder] = folders.get(folder, "") + "\n" + text
    for text in folders.values():
        functions = _functions(text)
        for verb, path, handler in _ROUTE.findall(text):
            clean = re.sub(r"\{(\w+)(?::[^}]*)?\}", r"{\1}", path)
            yield verb.upper(), clean, _read_by(functions, handler, set())


def _functions(text: str) -> dict[str, str]:
    starts = [(each.start(), each[1]) for each in _FUNCTION.finditer(text)]
    ends = [start for start, _ in starts[1:]] + [len(text)]
    return {name: text[start:end] for (start, name), end in zip(starts, ends, strict=True)}


def _read_by(functions: dict[str, str], name: str, seen: set[str]) -> set[str]:
    """The parameters that a function reads, and those that it calls with the request."""
    seen.add(name)
    code = _HEADERS.sub("", functions.get(name, ""))
    names = set(_READ.findall(code))
    if _ARCHIVE.search(code):
        names.add("path")
    for other in functions.keys() - seen:
        if re.search(rf"\b{other}\([^)]*\b(?:r|r\.Form|version, r)\b", code):
            names |= _read_by(functions, other, seen)
    return names


def _resolve(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = dict(document["definitions"][schema["$ref"].rpartition("/")[2]])
    return schema


def _properties(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for part in schema.get("allOf", ()):
        properties |= _properties(document, _resolve(document, part))
    return properties | (schema.get("properties") or {})


def list_leaves(
    document: dict[str, Any], schema: dict[str, Any], path: str = "", depth: int = 0
) -> Iterator[str]:
    """The path of each leaf: `[]` for the items of an array, `{}` for the values of a map."""
    schema = _resolve(document, schema)
    if depth > _MAX_DEPTH:
        return
    if schema.get("type") == "array":
        yield from list_leaves(document, schema["items"], f"{path}[]", depth + 1)
        return
    properties = _properties(document, schema)
    if properties:
        for name, inner in properties.items():
            yield from list_leaves(document, inner, f"{path}.{name}".lstrip("."), depth + 1)
        return
    inner = schema.get("additionalProperties")
    if isinstance(inner, dict):
        yield from list_leaves(document, inner, f"{path}{{}}", depth + 1)
        return
    yield path


def describe(document: dict[str, Any]) -> Iterator[tuple[str, str, set[str], set[str]]]:
    """Method, path, query parameters and body leaves of each route that is described."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method == "parameters":
                continue
            query: set[str] = set()
            body: set[str] = set()
            for each in operation.get("parameters", ()):
                each = _resolve_parameter(document, each)
                if each["in"] == "query":
                    query.add(each["name"])
                elif each["in"] == "body" and each["schema"].get("format") != "binary":
                    body |= set(list_leaves(document, each["schema"])) - {""}
            yield method.upper(), path, query, body


def _resolve_parameter(document: dict[str, Any], parameter: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in parameter:
        return dict(document["parameters"][parameter["$ref"].rpartition("/")[2]])
    return parameter


def collect(repository: str) -> dict[str, Any]:
    """Every route with its names, each with the first and the last version that has it."""
    table: dict[str, Any] = {}
    for version, tag in VERSIONS.items():
        files: dict[str, str] = {}
        for folder in (*_ROUTERS, *_HELPERS):
            files |= read_tree(repository, tag, folder)
        text = subprocess.run(
            ["git", f"--git-dir={repository}", "show", f"{tag}:api/swagger.yaml"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        document = yaml.load(text, Loader=_Loader)
        rows = [(method, path, query, set[str]()) for method, path, query in find_routes(files)]
        for method, path, query, body in [*rows, *describe(document)]:
            # The names in braces differ between source and description.
            key = f"{method} {re.sub(r'{[^}]*}', '{name}', path)}"
            route = table.setdefault(key, {"versions": [], "query": {}, "body": {}})
            for versions in (
                route["versions"],
                *(route["query"].setdefault(name, []) for name in query),
                *(route["body"].setdefault(name, []) for name in body),
            ):
                if version not in versions:
                    versions.append(version)
    return table


def _span(versions: list[str]) -> str:
    return versions[0] if len(versions) == 1 else f"{versions[0]}-{versions[-1]}"


def main() -> None:
    table = collect(sys.argv[1])
    document = {
        route: {
            "versions": _span(names["versions"]),
            "query": {name: _span(names["query"][name]) for name in sorted(names["query"])},
            "body": {name: _span(names["body"][name]) for name in sorted(names["body"])},
        }
        for route, names in sorted(table.items())
    }
    json.dump(document, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
