"""Files and folders become policy texts and one document."""

from __future__ import annotations

from pathlib import Path

import pytest

from doorward.bundles.loader import Limits, LoadError, list_files, load, read_document
from doorward.rego import Diagnostic


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path,
        {
            "dir/a/data.json": '{"x": 1}',
            "dir/a/extra.json": '{"w": 2}',
            "dir/p.rego": "package p\n",
            "dir/top.json": '{"t": true}',
            "dir/.hidden/data.json": '{"h": 1}',
            "dir/notes.txt": "x",
            "two.json": '{"a": {"x": 2}}',
            "arr.json": "[1, 2]",
        },
    )
    return tmp_path


def test_a_folder_gives_data_below_its_folders_and_policies_by_path(tree: Path) -> None:
    loaded = load(["dir"])
    assert loaded.modules == {"dir/p.rego": "package p\n"}
    assert loaded.data == {".hidden": {"h": 1}, "a": {"x": 1, "w": 2}, "t": True}


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [(".*", {"a", "t"}), ("a", {".hidden", "t"}), ("*.json", set()), ("[^t]*", {"t"})],
)
def test_ignored_names_are_suppressed(tree: Path, pattern: str, keys: set[str]) -> None:
    assert set(load(["dir"], ignore=[pattern]).data) == keys


def test_a_file_named_by_itself_is_never_ignored(tree: Path) -> None:
    assert load(["two.json"], ignore=["*"]).data == {"a": {"x": 2}}


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (
            ["dir", "two.json"],
            "two.json: merge error: data.a.x is also defined in dir/a/data.json: keep it in one "
            "file; all JSON and YAML files of a folder are data, inputs too",
        ),
        (["arr.json"], "arr.json: document must be of type object"),
        (["missing.rego"], "stat missing.rego: no such file or directory"),
    ],
)
def test_what_cannot_be_loaded_says_why(tree: Path, paths: list[str], message: str) -> None:
    with pytest.raises(LoadError) as caught:
        load(paths)
    assert caught.value.messages == (message,)


def test_the_first_of_several_clashes_names_the_value_and_the_other_file(tree: Path) -> None:
    write(tree, {each: '{"user": {"name": 1}}' for each in ("in/1.json", "in/2.json", "in/3.json")})
    with pytest.raises(LoadError) as caught:
        load(["in"])
    first, second = caught.value.messages
    assert first.startswith(
        "in/2.json: merge error: data.user.name is also defined in in/1.json: keep it in one file"
    )
    assert second == "in/3.json: merge error"


def test_a_prefix_puts_any_document_at_its_path(tree: Path) -> None:
    assert load(["x.y:arr.json"]).data == {"x": {"y": [1, 2]}}
    assert load(["x.y:dir/a"]).data == {"x": {"y": {"x": 1, "w": 2}}}


def test_every_bad_file_is_reported_at_once(tree: Path) -> None:
    write(tree, {"bad.json": "{", "worse.rego": ""})
    (tree / "worse.rego").write_bytes(b"package p\n\xff")
    with pytest.raises(LoadError) as caught:
        load(["bad.json", "worse.rego"])
    assert caught.value.messages == (
        "bad.json: unexpected EOF",
        "worse.rego: policy is not UTF-8 at byte 10",
    )
    assert str(caught.value).startswith("2 errors occurred during loading:\nbad.json")


def test_policies_that_cannot_be_parsed_are_reported_with_bad_data(tree: Path) -> None:
    write(tree, {"a.json": "{", "b.rego": "package b\n\np if {\n", "c.yaml": "[1", "d.rego": ""})
    with pytest.raises(LoadError) as caught:
        load(["."])
    data, brace, yaml, empty = caught.value.problems[0], *caught.value.problems[-3:]
    assert (data, yaml) == (
        "a.json: unexpected EOF",
        "c.yaml: error converting YAML to JSON: yaml: line 1: did not find expected ',' or ']'",
    )
    assert isinstance(brace, Diagnostic)
    assert isinstance(empty, Diagnostic)
    assert (brace.span.file, empty.span.file) == ("b.rego", "d.rego")
    assert " 3 | p if {\n" in str(caught.value)


def test_a_config_map_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, {"..2026_01/policy.rego": "package p\n"})
    (tmp_path / "..data").symlink_to("..2026_01")
    (tmp_path / "policy.rego").symlink_to("..data/policy.rego")
    assert list(load([str(tmp_path)]).modules) == [str(tmp_path / "policy.rego")]


def test_a_policy_needs_no_extension_when_it_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"policy": "# what it is\n\npackage p\n", "data": '{"a": 1}'})
    loaded = load([str(tmp_path / "policy"), str(tmp_path / "data")])
    assert list(loaded.modules) == [str(tmp_path / "policy")]
    assert loaded.data == {"a": 1}


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(policy_bytes=4), "file is larger than 4 bytes"),
        (Limits(files=1), "more than 1 files"),
        (Limits(depth=0), "nested deeper than 0"),
    ],
)
def test_everything_is_bounded(tree: Path, limits: Limits, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        load(["dir"], limits=limits)


def test_a_loop_of_folders_ends(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    write(tmp_path, {"policy.rego": "package p\n"})
    assert len(load([str(tmp_path)]).modules) == 1


def test_the_files_are_listed_without_reading_them(tree: Path) -> None:
    (tree / "dir/a/data.json").write_text("{ not json")
    names = list_files(["dir", "missing"])
    assert names == (
        "dir/.hidden/data.json",
        "dir/a/data.json",
        "dir/a/extra.json",
        "dir/p.rego",
        "dir/top.json",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "EOF"),
        ("  \n", "EOF"),
        ("{", "unexpected EOF"),
        ('{"a": "b', "unexpected EOF"),
        ("{x", "invalid character 'x' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a": 1 2}', "invalid character '2' after object key:value pair"),
        ('["]", 1 2]', "invalid character '2' after array element"),
        ("nope", r"invalid character 'o' in literal null \(expecting 'u'\)"),
        ("1 x", "invalid character 'x' looking for beginning of value"),
        ('"\t"', r"invalid character '\\t' in string literal"),
    ],
)
def test_bad_json_is_refused_in_the_words_of_go(text: str, message: str) -> None:
    with pytest.raises(LoadError, match="^1 error occurred during loading: f.json: " + message):
        read_document("f.json", text)


def test_the_digest_says_what_was_read(tree: Path) -> None:
    before = load(["dir"]).digest
    assert before == load(["dir"]).digest
    assert before != load(["x:dir"]).digest
    (tree / "dir/p.rego").write_text("package p\n\n")
    assert before != load(["dir"]).digest
    assert load([]).modules == {}


def test_policies_alone_have_no_digest(tree: Path) -> None:
    loaded = load(["dir"], policies_only=True)
    assert (loaded.files, loaded.digest) == (("dir/p.rego",), "")


@pytest.mark.parametrize("path", ["./two.json", "dir//..//two.json", ".//dir/./../two.json/"])
def test_files_have_the_names_that_pathlib_gives_them(tree: Path, path: str) -> None:
    for each in (path.rstrip("/"), f"{tree}/{path}".rstrip("/")):
        assert load([each]).files == (str(Path(each)),)


def test_two_slashes_at_the_beginning_stay_and_three_do_not(tree: Path) -> None:
    for slashes in ("/", "//", "///"):
        path = slashes + str(tree / "dir").lstrip("/")
        assert list_files([path])[-1] == str(Path(path, "top.json"))


def test_the_working_folder_is_a_dot(tree: Path) -> None:
    for path in (".", "./", ".//."):
        assert list_files([path]) == list_files(["."])


def test_a_large_yaml_file_is_read(tree: Path) -> None:
    items = "\n".join(f"  - {{name: user{n}, role: viewer}}" for n in range(9000))
    write(tree, {"large.yaml": f"items:\n{items}\n"})
    assert load(["large.yaml"]).data["items"][-1] == {"name": "user8999", "role": "viewer"}  # type: ignore[index]
