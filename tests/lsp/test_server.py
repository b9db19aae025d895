"""The language server as an editor talks to it, over its pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from tests.waiting import PATIENCE

pytest.importorskip("pygls", reason="the extra `lsp` is not installed")


class Editor:
    """An editor that knows as much of the protocol as these tests need."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        code = "from doorward.cli.main import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "lsp", "--stdio", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.folder = folder
        self.count = 0
        self.told: list[dict[str, Any]] = []

    def tell(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        message = self.request(method, params)
        assert "error" not in message, message
        return message["result"]

    def request(self, method: str, params: Any) -> dict[str, Any]:
        """The whole answer, an error too."""
        self.count += 1
        self._send({"id": self.count, "method": method, "params": params})
        while True:
            message = self._read()
            if message.get("id") == self.count and "method" not in message:
                return message
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        """What the server says by itself; what it asks is granted."""
        self.told.append(message)
        if "id" in message:
            is_edit = message["method"] == "workspace/applyEdit"
            self._send({"id": message["id"], "result": {"applied": True} if is_edit else None})

    def diagnostics(self, name: str) -> list[Any]:
        """The next diagnostics of a file."""
        while True:
            for message in self.told:
                params = message.get("params", {})
                if params.get("uri", "").endswith(f"/{name}"):
                    self.told.remove(message)
                    actual: list[Any] = params["diagnostics"]
                    return actual
            self._note(self._read())

    def open(self, path: Path, text: str) -> str:
        """Open a file with a text that need not be the saved one; its URI."""
        document = {"uri": path.as_uri(), "languageId": "rego", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        return path.as_uri()

    def at(self, path: Path, text: str, part: str) -> dict[str, Any]:
        """The place in `part` behind its mark `|`, as a request names it."""
        offset = text.index(part.replace("|", "")) + part.index("|")
        row = text.count("\n", 0, offset)
        column = offset - text.rfind("\n", 0, offset) - 1
        position = {"line": row, "character": column}
        return {"textDocument": {"uri": path.as_uri()}, "position": position}

    def start(self, **params: Any) -> dict[str, Any]:
        known = {"processId": None, "capabilities": {}, "rootUri": None, **params}
        answer: dict[str, Any] = self.ask("initialize", known)
        self.tell("initialized", {})
        return answer

    def end(self) -> None:
        self.ask("shutdown", None)
        self.tell("exit", None)
        assert self.process.wait(PATIENCE) == 0

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            self._pipe(pipe).close()

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        pipe = self._pipe(self.process.stdin)
        pipe.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        pipe.flush()

    def _read(self) -> dict[str, Any]:
        pipe = self._pipe(self.process.stdout)
        length = 0
        while line := pipe.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length, "the server has ended"
        message: dict[str, Any] = json.loads(pipe.read(length))
        return message

    def _pipe(self, pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe


ROLES = "package roles\n\nadmin := 3\n\nlevel(name) := admin if name\n"
AUTHZ = """package authz

import data.roles

allow if {
    some role in input.user.roles
    roles.level(role) == roles.admin
}
"""


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    (tmp_path / "roles.rego").write_text(ROLES)
    started = Editor(tmp_path)
    folders = [{"uri": tmp_path.as_uri(), "name": "policies"}]
    try:
        started.start(rootUri=tmp_path.as_uri(), workspaceFolders=folders)
        yield started
        started.end()
    finally:
        started.close()


def test_an_editor_is_answered(editor: Editor, tmp_path: Path) -> None:
    uri = (tmp_path / "p.rego").as_uri()
    broken = 'package p\n\nname := "😀"\nallow if x == data.roles.admin\n'
    document = {"uri": uri, "languageId": "rego", "version": 1, "text": broken}
    editor.tell("textDocument/didOpen", {"textDocument": document})
    (diagnostic,) = editor.diagnostics("p.rego")
    assert diagnostic["message"].startswith("var x is unsafe")
    assert diagnostic["range"]["start"] == {"line": 3, "character": 9}
    position = {"textDocument": {"uri": uri}, "position": {"line": 3, "character": 28}}
    (rule,) = editor.ask("textDocument/definition", position)
    assert rule["uri"].endswith("/roles.rego")
    assert "admin" in editor.ask("textDocument/hover", position)["contents"]["value"]
    labels = [each["label"] for each in editor.ask("textDocument/completion", position)["items"]]
    assert labels == ["data.roles.admin"]
    change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": "package p"}]}
    editor.tell("textDocument/didChange", change)
    options = {"tabSize": 4, "insertSpaces": True}
    formatting = {"textDocument": {"uri": uri}, "options": options}
    (edit,) = editor.ask("textDocument/formatting", formatting)
    assert edit["newText"] == "package p\n"


@pytest.fixture
def rooted(tmp_path: Path) -> Iterator[Editor]:
    """An editor that names a root and no folders, with a file open."""
    (tmp_path / "roles.rego").write_text(ROLES)
    (tmp_path / "authz.rego").write_text(AUTHZ)
    editor = Editor(tmp_path)
    try:
        watched_files = {"didChangeWatchedFiles": {"dynamicRegistration": True}}
        editor.start(rootUri=tmp_path.as_uri(), capabilities={"workspace": watched_files})
        editor.open(tmp_path / "authz.rego", AUTHZ)
        yield editor
        editor.end()
    finally:
        editor.close()


def places(actual: list[Any]) -> list[str]:
    """Locations as `file:row:column`, as the protocol counts."""
    starts = [(each["uri"].rpartition("/")[2], each["range"]["start"]) for each in actual]
    return sorted(f"{name}:{start['line']}:{start['character']}" for name, start in starts)


def test_what_is_offered_is_announced(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    try:
        renaming = {"textDocument": {"rename": {"prepareSupport": True}}}
        offered = editor.start(capabilities=renaming)["capabilities"]
        for name in (
            "hoverProvider",
            "definitionProvider",
            "referencesProvider",
            "documentHighlightProvider",
            "documentSymbolProvider",
            "workspaceSymbolProvider",
            "documentFormattingProvider",
        ):
            assert offered[name]
        assert offered["renameProvider"] == {"prepareProvider": True}
        assert offered["signatureHelpProvider"]["triggerCharacters"] == ["(", ","]
        assert offered["codeActionProvider"]["codeActionKinds"] == ["quickfix"]
        editor.end()
    finally:
        editor.close()


def test_names_are_followed_across_files(rooted: Editor, tmp_path: Path) -> None:
    position = rooted.at(tmp_path / "authz.rego", AUTHZ, "roles.|admin")
    assert places(rooted.ask("textDocument/definition", position)) == ["roles.rego:2:0"]
    every = {**position, "context": {"includeDeclaration": True}}
    assert places(rooted.ask("textDocument/references", every)) == [
        "authz.rego:6:31",
        "roles.rego:2:0",
        "roles.rego:4:15",
    ]
    used = {**position, "context": {"includeDeclaration": False}}
    assert len(rooted.ask("textDocument/references", used)) == 2
    assert len(rooted.ask("textDocument/documentHighlight", position)) == 1


def test_a_name_is_changed_everywhere(rooted: Editor, tmp_path: Path) -> None:
    position = rooted.at(tmp_path / "authz.rego", AUTHZ, "roles.|admin")
    named = rooted.ask("textDocument/prepareRename", position)
    assert named["start"] == {"line": 6, "character": 31}
    changes = rooted.ask("textDocument/rename", {**position, "newName": "chief"})["changes"]
    assert sorted(uri.rpartition("/")[2] for uri in changes) == ["authz.rego", "roles.rego"]
    assert {edit["newText"] for edits in changes.values() for edit in edits} == {"chief"}
    refused = rooted.request("textDocument/rename", {**position, "newName": "level"})["error"]
    assert "`level` is already the name of something else" in json.dumps(refused)
    nothing = rooted.at(tmp_path / "authz.rego", AUTHZ, "pack|age")
    assert rooted.ask("textDocument/prepareRename", nothing) is None


def test_symbols_are_listed(rooted: Editor, tmp_path: Path) -> None:
    document = {"textDocument": {"uri": (tmp_path / "roles.rego").as_uri()}}
    answer = rooted.ask("textDocument/documentSymbol", document)
    assert [(each["name"], each["kind"]) for each in answer] == [
        ("roles", 4),
        ("admin", 13),
        ("level", 12),
    ]
    answer = rooted.ask("workspace/symbol", {"query": "lev"})
    assert [each["name"] for each in answer] == ["data.roles.level"]
    assert places([each["location"] for each in answer]) == ["roles.rego:4:0"]


def test_a_call_shows_its_signature(rooted: Editor, tmp_path: Path) -> None:
    text = AUTHZ.replace("roles.level(role)", "startswith(role, ")
    change = {
        "textDocument": {"uri": (tmp_path / "authz.rego").as_uri(), "version": 2},
        "contentChanges": [{"text": text}],
    }
    rooted.tell("textDocument/didChange", change)
    position = rooted.at(tmp_path / "authz.rego", text, "role, |")
    answer = rooted.ask("textDocument/signatureHelp", position)
    assert answer["activeParameter"] == 1
    assert answer["signatures"][0]["label"].startswith("startswith(search: string, base: string)")
    position = rooted.at(tmp_path / "authz.rego", text, "input.|user")
    labels = [each["label"] for each in rooted.ask("textDocument/completion", position)["items"]]
    assert labels == ["input.user"]
    position = rooted.at(tmp_path / "authz.rego", text, "pack|age")
    assert rooted.ask("textDocument/signatureHelp", position) is None


def test_a_hint_can_be_followed_by_a_click(rooted: Editor, tmp_path: Path) -> None:
    path = tmp_path / "new.rego"
    text = "package new\n\np {\n    data.roles.admn\n}\n"
    uri = rooted.open(path, text)
    diagnostic = {each["code"]: each for each in rooted.diagnostics("new.rego")}
    assert diagnostic["doorward_near_name"]["severity"] == 3
    assert diagnostic["rego_parse_error"]["severity"] == 1
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 5, "character": 0}}
    params = {"textDocument": {"uri": uri}, "range": whole, "context": {"diagnostics": []}}
    actions = rooted.ask("textDocument/codeAction", params)
    edits = [action["edit"]["changes"][uri][0] for action in actions]
    assert [edit["newText"] for edit in edits] == ["if ", "admin"]
    assert edits[0]["range"]["start"] == {"line": 2, "character": 2}
    line = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 3}}
    assert rooted.ask("textDocument/codeAction", {**params, "range": line}) == []


def test_a_broken_statement_hides_nothing_else(rooted: Editor, tmp_path: Path) -> None:
    text = AUTHZ + "\nbroken := )\n\nother := y\n"
    rooted.tell(
        "textDocument/didChange",
        {
            "textDocument": {"uri": (tmp_path / "authz.rego").as_uri(), "version": 2},
            "contentChanges": [{"text": text}],
        },
    )
    rows = {each["range"]["start"]["line"] for each in rooted.diagnostics("authz.rego")}
    assert rows == {9, 11}
    position = rooted.at(tmp_path / "authz.rego", text, "roles.|admin")
    assert places(rooted.ask("textDocument/definition", position)) == ["roles.rego:2:0"]


def test_files_that_change_without_the_editor_are_read_again(
    rooted: Editor, tmp_path: Path
) -> None:
    (tmp_path / "roles.rego").write_text("package roles\n\nadmin := 3\n")
    watched = {"changes": [{"uri": (tmp_path / "roles.rego").as_uri(), "type": 2}]}
    rooted.tell("workspace/didChangeWatchedFiles", watched)
    (diagnostic,) = rooted.diagnostics("authz.rego")
    assert diagnostic["message"] == "undefined function data.roles.level"
    methods = [each["method"] for each in rooted.told if "method" in each]
    assert "client/registerCapability" in methods
    (tmp_path / "roles.rego").write_text(ROLES)
    rooted.tell("workspace/didChangeWatchedFiles", watched)
    assert rooted.diagnostics("authz.rego") == []
    # What is open counts as the editor has it.
    (tmp_path / "authz.rego").write_text("package authz\n\np := x\n")
    changes = {"changes": [{"uri": (tmp_path / "authz.rego").as_uri(), "type": 2}]}
    rooted.tell("workspace/didChangeWatchedFiles", changes)
    (tmp_path / "roles.rego").unlink()
    gone = {"changes": [{"uri": (tmp_path / "roles.rego").as_uri(), "type": 3}]}
    rooted.tell("workspace/didChangeWatchedFiles", gone)
    (diagnostic,) = rooted.diagnostics("authz.rego")
    assert diagnostic["message"] == "undefined function data.roles.level"


def test_a_folder_that_joins_is_read(editor: Editor, tmp_path: Path) -> None:
    text = "package p\n\np := data.lib.f(1)\n"
    editor.open(tmp_path / "p.rego", text)
    assert len(editor.diagnostics("p.rego")) == 1
    other = tmp_path.parent / f"{tmp_path.name}-other"
    other.mkdir()
    (other / "lib.rego").write_text("package lib\n\nf(x) := x\n")
    added = [{"uri": other.as_uri(), "name": "other"}]
    editor.tell("workspace/didChangeWorkspaceFolders", {"event": {"added": added, "removed": []}})
    assert editor.diagnostics("p.rego") == []


BUILTINS = """from doorward.rego import Registry, types

registry = Registry()


@registry.builtin("acme.price", types.string, returns=types.number)
def acme_price(article: str) -> int:
    return 1
"""


@pytest.mark.parametrize("named", [True, False])
def test_built_ins_are_those_that_the_command_line_names(tmp_path: Path, named: bool) -> None:
    imported = tmp_path / "imported"
    (tmp_path / "own.py").write_text(f"{BUILTINS}\nopen({str(imported)!r}, 'w').close()\n")
    (tmp_path / "pyproject.toml").write_text("[tool.doorward]\nbuiltins = 'own.py:registry'\n")
    options = ["--builtins", f"{tmp_path}/own.py:registry"] if named else []
    editor = Editor(tmp_path, *options)
    try:
        editor.start(rootUri=tmp_path.as_uri())
        text = 'package p\n\np := acme.price("tea")\n\nq := x\n'
        editor.open(tmp_path / "p.rego", text)
        messages = [each["message"].splitlines()[0] for each in editor.diagnostics("p.rego")]
        assert ("undefined function acme.price" in messages) is not named
        assert imported.exists() is named
        editor.end()
    finally:
        editor.close()


PROPERTIES = (
    "package app\n\nallow if input.x == 1\n\nnever_two if { allow; input.x == 2 }\n\n"
    "never_one if { allow; input.x == 1 }\n"
)


def lenses_of(editor: Editor, text: str = PROPERTIES) -> list[dict[str, Any]]:
    """The commands of the lenses of a file that holds `text`."""
    document = {"uri": editor.open(editor.folder / "props.rego", text)}
    lenses = editor.ask("textDocument/codeLens", {"textDocument": document})
    assert [each["range"]["start"]["line"] for each in lenses] == [4, 6]
    return [editor.ask("codeLens/resolve", each)["command"] for each in lenses]


def run_lens(editor: Editor, lens: dict[str, Any]) -> list[dict[str, Any]]:
    """Click on a lens; the messages that the server sends before it answers."""
    editor.told.clear()
    arguments = {"command": lens["command"], "arguments": lens["arguments"]}
    editor.ask("workspace/executeCommand", arguments)
    return editor.told


def test_a_lens_above_a_property_says_whether_it_holds(editor: Editor) -> None:
    lenses = lenses_of(editor)
    assert lenses[0]["title"] == "none exists: proved for any input"
    assert lenses[1]["title"] == 'counterexample: input {"x":1}'
    # This editor cannot be asked to change a document, so that a click shows the report.
    for lens, part in zip(lenses, ["none exists, for any JSON input", "curl -d"], strict=True):
        [message] = run_lens(editor, lens)
        assert message["method"] == "window/showMessage"
        assert part in message["params"]["message"]


@pytest.mark.parametrize("end", ["\n", ""])
def test_the_lens_of_a_counterexample_adds_its_test_once(tmp_path: Path, end: str) -> None:
    editor = Editor(tmp_path)
    try:
        editor.start(capabilities={"workspace": {"applyEdit": True}})
        text = PROPERTIES.rstrip("\n") + end
        lens = lenses_of(editor, text)[1]
        [edit] = run_lens(editor, lens)[:1]
        assert edit["method"] == "workspace/applyEdit"
        [(uri, [change])] = edit["params"]["edit"]["changes"].items()
        assert change["range"]["start"] == change["range"]["end"]
        rows, columns = change["range"]["start"]["line"], change["range"]["start"]["character"]
        assert (rows, columns) == (text.count("\n"), len(text.rpartition("\n")[2]))
        changed = text + change["newText"]
        assert "\n\n# fails as long as this is true" in changed
        assert "not data.app.never_one with input as" in changed
        version = {"uri": uri, "version": 2}
        changes = {"textDocument": version, "contentChanges": [{"text": changed}]}
        editor.tell("textDocument/didChange", changes)
        [message] = run_lens(editor, lens)
        assert "already has this test" in message["params"]["message"]
    finally:
        editor.close()


def test_a_lens_reads_the_data_that_the_command_names(tmp_path: Path) -> None:
    text = PROPERTIES.replace("allow if input.x == 1", "allow if input.x == data.levels.admin")
    paths = [tmp_path / "data.json", tmp_path / "broken.json"]
    paths[0].write_text('{"levels": {"admin": 1}}')
    paths[1].write_text("{")
    outcomes = []
    for arguments in [(), ("--data", str(paths[0])), ("--data", str(paths[1]))]:
        editor = Editor(tmp_path, *arguments)
        try:
            editor.start()
            outcomes.append([lens["title"] for lens in lenses_of(editor, text)])
        finally:
            editor.close()
    without, with_data, unreadable = outcomes
    assert all("data.levels" in title and "--data PATH" in title for title in without)
    assert with_data == [
        "none exists: proved for any input",
        'counterexample: input {"x":1}',
    ]
    assert unreadable == ["cannot say: data cannot be read"] * 2


def test_a_command_without_its_arguments_is_refused(editor: Editor) -> None:
    for arguments in ([], ["file:///x.rego"], [1, 2]):
        command = {"command": "doorward.addTest", "arguments": arguments}
        assert "error" in editor.request("workspace/executeCommand", command)
