"""The language server as an editor talks to it, over its pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

pytest.importorskip("pygls", reason="the extra `lsp` is not installed")


class Editor:
    """An editor that knows as much of the protocol as these tests need."""

    def __init__(self, folder: Path) -> None:
        code = "from doorward.cli.main import main; main(['lsp', '--stdio'])"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.folder = folder
        self.count = 0
        self.told: list[dict[str, Any]] = []

    def tell(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        self.count += 1
        self._send({"id": self.count, "method": method, "params": params})
        while True:
            message = self._read()
            if message.get("id") == self.count:
                assert "error" not in message, message
                return message["result"]
            self.told.append(message)

    def diagnostics(self, name: str) -> list[Any]:
        """The next diagnostics of a file."""
        while True:
            waiting, self.told = self.told, []
            for message in waiting or [self._read()]:
                params = message.get("params", {})
                if params.get("uri", "").endswith(f"/{name}"):
                    found: list[Any] = params["diagnostics"]
                    return found

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


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    (tmp_path / "roles.rego").write_text("package roles\n\nadmin := 3\n")
    found = Editor(tmp_path)
    folders = [{"uri": tmp_path.as_uri(), "name": "policies"}]
    workspace = {"rootUri": tmp_path.as_uri(), "workspaceFolders": folders}
    try:
        found.ask("initialize", {"processId": None, "capabilities": {}, **workspace})
        found.tell("initialized", {})
        yield found
        found.ask("shutdown", None)
        found.tell("exit", None)
        assert found.process.wait(10) == 0
    finally:
        found.process.kill()
        found.process.wait(10)
        for pipe in (found.process.stdin, found.process.stdout):
            assert pipe is not None
            pipe.close()


def test_an_editor_is_answered(editor: Editor, tmp_path: Path) -> None:
    uri = (tmp_path / "p.rego").as_uri()
    broken = 'package p\n\nname := "😀"\nallow if x == data.roles.admin\n'
    document = {"uri": uri, "languageId": "rego", "version": 1, "text": broken}
    editor.tell("textDocument/didOpen", {"textDocument": document})
    (found,) = editor.diagnostics("p.rego")
    assert found["message"].startswith("var x is unsafe")
    assert found["range"]["start"] == {"line": 3, "character": 9}
    place = {"textDocument": {"uri": uri}, "position": {"line": 3, "character": 28}}
    (rule,) = editor.ask("textDocument/definition", place)
    assert rule["uri"].endswith("/roles.rego")
    assert "admin" in editor.ask("textDocument/hover", place)["contents"]["value"]
    labels = [each["label"] for each in editor.ask("textDocument/completion", place)["items"]]
    assert labels == ["data.roles.admin"]
    change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": "package p"}]}
    editor.tell("textDocument/didChange", change)
    options = {"tabSize": 4, "insertSpaces": True}
    formatting = {"textDocument": {"uri": uri}, "options": options}
    (edit,) = editor.ask("textDocument/formatting", formatting)
    assert edit["newText"] == "package p\n"
