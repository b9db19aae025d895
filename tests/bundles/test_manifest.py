"""What a manifest says, and what it keeps out."""

from __future__ import annotations

import json

import pytest
from tests.growth import grows

from doorward.bundles.manifest import (
    Manifest,
    ManifestError,
    check_data,
    check_module,
    check_roots,
    is_below_roots,
)
from doorward.rego.shared import Source
from doorward.rego.syntax.parser import parse_module
from doorward.rego.values import Key, Value


def of(*roots: str) -> Manifest:
    return Manifest.parse(json.dumps({"roots": roots}).encode())


def test_a_manifest_that_says_nothing_permits_everything() -> None:
    manifest = Manifest.parse(b"{}")
    assert manifest == Manifest() == Manifest.parse(b'{"roots": null, "unknown": 1}')
    check_data(manifest, {"a": 1})
    check_module(manifest, parse_module(Source("p", "package any.thing")), "p")


def test_slashes_around_a_root_are_nothing() -> None:
    assert of("/a/b/", "c").roots == ("a/b", "c")


@pytest.mark.parametrize(
    ("roots", "pair"),
    [
        (["a", "a/b"], "'a' and 'a/b'"),
        (["a/b", "a"], "'a/b' and 'a'"),
        (["a", "b", "a"], "'a' and 'a'"),
        (["", "a"], "'' and 'a'"),
        (["a/b/c/d", "x", "a/b"], "'a/b/c/d' and 'a/b'"),
    ],
)
def test_a_root_within_another_is_refused(roots: list[str], pair: str) -> None:
    with pytest.raises(ManifestError, match=f"manifest has overlapped roots: {pair}"):
        of(*roots)


def test_names_that_begin_alike_are_no_roots_of_each_other() -> None:
    manifest = of("a", "ab", "b/c")
    check_data(manifest, {"a": 1, "ab": {"x": 1}, "b": {"c": {"d": 1}}})
    outside: list[dict[Key, Value]] = [{"abc": 1}, {"b": 1}, {"b": {"cd": 1}}, {"b": []}]
    for data in outside:
        with pytest.raises(ManifestError, match="do not permit data at path '/"):
            check_data(manifest, data)


@pytest.mark.parametrize(
    ("package", "permitted"), [("a", True), ("a.b.c", True), ("ab", False), ("b", False)]
)
def test_a_package_lies_below_a_root(package: str, permitted: bool) -> None:
    module = parse_module(Source("p.rego", f"package {package}"))
    if permitted:
        check_module(of("a"), module, "p.rego")
        return
    with pytest.raises(ManifestError) as caught:
        check_module(of("a"), module, "p.rego")
    said = f"manifest roots [a] do not permit 'package {package}' in module 'p.rego'"
    assert str(caught.value) == said


def test_bundles_that_keep_apart_are_no_conflict() -> None:
    check_roots({"one": of("a/b"), "two": of("a/c"), "three": of("ab")})
    with pytest.raises(ManifestError, match=r"bundles: \[one, two\] \(a/b overlaps a/b/c\)"):
        check_roots({"one": of("a/b"), "two": of("a/b/c"), "three": of("ab")})


def test_many_roots_are_checked_in_time_in_proportion() -> None:
    def check(roots: tuple[Manifest, Manifest, dict[Key, Value]]) -> None:
        one, two, data = roots
        check_roots({"one": one, "two": two})
        check_data(one, data)

    def make(count: int) -> tuple[Manifest, Manifest, dict[Key, Value]]:
        one, two = (of(*(f"{name}/{n}/x" for n in range(count))) for name in "ab")
        return one, two, {"a": {str(n): {"x": 1} for n in range(count)}}

    assert not grows(check, make, 2_000)


def test_a_root_of_very_many_names_is_refused() -> None:
    deepest = "/".join("a" * 64)
    assert Manifest(roots=(deepest,)).roots == (deepest,)
    with pytest.raises(ManifestError, match="` has more than 64 levels"):
        Manifest(roots=(f"{deepest}/a",))
    # Without the bound of roots, a path outside of them took quadratic time.
    manifest = Manifest(roots=("b", deepest))
    assert not is_below_roots(manifest, ("a",) * 63 + ("b",) * 100_000)
    assert is_below_roots(manifest, ("a",) * 100_000)


def test_versions_of_very_many_files_are_found() -> None:
    # As `opa build` writes them for files of both versions; each file was compared with each.
    names = [f"f{n}.rego" for n in range(20_000)]
    versions = {f"/{name}": n % 2 for n, name in enumerate(names)} | {
        "/f1*.rego": 1,
        "/[g].rego": 0,
    }
    manifest = Manifest(file_rego_versions=versions)
    assert [manifest.version_of(name) for name in names] == [n % 2 for n in range(20_000)]
    assert manifest.version_of("f1x.rego") == 1
    assert manifest.version_of("g.rego") == 0
    assert manifest.version_of("[g].rego") is None
    with pytest.raises(ManifestError, match="more than 1000 patterns with wildcards"):
        Manifest(file_rego_versions={f"/{n}*.rego": 1 for n in range(1001)})
