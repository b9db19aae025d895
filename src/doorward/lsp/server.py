"""The Language Server Protocol over standard input and output: what `language` answers, carried.

Only this file knows the protocol's library. Policies of the workspace are read when the editor
connects; what is open in the editor counts as the editor has it, saved or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import TextDocument

from doorward import __version__
from doorward.lsp.language import Policies
from doorward.pdp.loader import LoadError, list_files
from doorward.rego import Diagnostic, Source, Span

__all__ = ["make_server"]

PAUSE: Final = 0.2
"""Seconds without a keystroke before policies are checked."""

MAX_BYTES: Final = 16 << 20
"""Bytes of a policy."""

_KINDS = {
    "builtin": types.CompletionItemKind.Function,
    "document": types.CompletionItemKind.Module,
    "keyword": types.CompletionItemKind.Keyword,
    "rule": types.CompletionItemKind.Variable,
}


def make_server() -> LanguageServer:
    """A server that has not been started."""
    server = LanguageServer("doorward", __version__, types.TextDocumentSyncKind.Full)
    editor = _Editor(server)
    answers: dict[str, Callable[..., Any]] = {
        types.INITIALIZED: editor.read_workspace,
        types.TEXT_DOCUMENT_DID_OPEN: editor.opened,
        types.TEXT_DOCUMENT_DID_CHANGE: editor.changed,
        types.TEXT_DOCUMENT_DID_CLOSE: editor.closed,
        types.TEXT_DOCUMENT_HOVER: editor.hover,
        types.TEXT_DOCUMENT_DEFINITION: editor.definition,
        types.TEXT_DOCUMENT_FORMATTING: editor.formatting,
    }
    for name, answer in answers.items():
        server.feature(name)(partial(answer))  # the library marks what it is given
    options = types.CompletionOptions(trigger_characters=["."])
    server.feature(types.TEXT_DOCUMENT_COMPLETION, options)(partial(editor.completion))
    return server


class _Editor:
    """One editor: its policies, under the URIs that it knows them by."""

    def __init__(self, server: LanguageServer) -> None:
        self.server = server
        self.policies = Policies()
        self._published: dict[str, list[types.Diagnostic]] = {}
        self._waiting: asyncio.TimerHandle | None = None

    # What the editor tells

    def read_workspace(self, _: types.InitializedParams) -> None:
        for folder in self.server.workspace.folders.values():
            path = to_fs_path(folder.uri)
            if path is not None:
                self._read_folder(path)
        self._publish()

    def _read_folder(self, folder: str) -> None:
        try:
            names = list_files([folder])
        except LoadError as error:
            self.server.window_log_message(
                types.LogMessageParams(types.MessageType.Warning, str(error))
            )
            return
        for name in names:
            if name.endswith(".rego"):
                self._read(name)

    def _read(self, name: str) -> None:
        uri = from_fs_path(name)
        try:
            with open(name, "rb") as file:
                text = file.read(MAX_BYTES).decode("utf-8")
        except (OSError, UnicodeDecodeError):
            return  # The commands say what is wrong with it; here it is only not known.
        if uri is not None:
            self.policies.put(uri, text)

    def opened(self, params: types.DidOpenTextDocumentParams) -> None:
        self._take(params.text_document.uri)

    def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        self._take(params.text_document.uri)

    def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        """What was not saved is forgotten."""
        uri = params.text_document.uri
        path = to_fs_path(uri)
        self.policies.remove(uri)
        if path is not None and Path(path).is_file():
            self._read(path)
        self._publish()

    def _take(self, uri: str) -> None:
        self.policies.put(uri, self._document(uri).source)
        # Everything is checked together, which no keystroke should wait for.
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = asyncio.get_running_loop().call_later(PAUSE, self._publish)

    def _publish(self) -> None:
        """Tell the editor what has changed since it was told last."""
        found = {
            uri: [self._diagnostic(each) for each in diagnostics]
            for uri, diagnostics in self.policies.diagnostics().items()
        }
        for uri in found.keys() | self._published.keys():
            now = found.get(uri, [])
            if now != self._published.get(uri, []):
                params = types.PublishDiagnosticsParams(uri, now)
                self.server.text_document_publish_diagnostics(params)
        self._published = found

    # What the editor asks

    def hover(self, params: types.HoverParams) -> types.Hover | None:
        uri, offset = self._place(params.text_document.uri, params.position)
        text = self.policies.hover(uri, offset)
        if not text:
            return None
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text))

    def definition(self, params: types.DefinitionParams) -> list[types.Location]:
        uri, offset = self._place(params.text_document.uri, params.position)
        found = self.policies.definition(uri, offset)
        return [types.Location(span.file, self._range(span)) for span in found]

    def completion(self, params: types.CompletionParams) -> types.CompletionList:
        uri, offset = self._place(params.text_document.uri, params.position)
        items = [
            types.CompletionItem(each.text, kind=_KINDS[each.kind], detail=each.detail or None)
            for each in self.policies.completions(uri, offset)
        ]
        return types.CompletionList(is_incomplete=False, items=items)

    def formatting(self, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        uri = params.text_document.uri
        formatted = self.policies.formatted(uri)
        if formatted is None:
            return None
        text = self.policies.texts[uri]
        end = types.Position(text.count("\n") + 1, 0)
        return [types.TextEdit(types.Range(types.Position(0, 0), end), formatted)]

    # Places

    def _document(self, uri: str) -> TextDocument:
        return self.server.workspace.get_text_document(uri)

    def _place(self, uri: str, position: types.Position) -> tuple[str, int]:
        return uri, self._document(uri).offset_at_position(position)

    def _diagnostic(self, found: Diagnostic) -> types.Diagnostic:
        message = found.message if not found.hint else f"{found.message}\nhint: {found.hint}"
        return types.Diagnostic(
            self._range(found.span),
            message,
            severity=types.DiagnosticSeverity.Error,
            code=found.code,
            source="doorward",
        )

    def _range(self, span: Span) -> types.Range:
        start = self._position(span.source, span.start)
        return types.Range(start, self._position(span.source, max(span.end, span.start)))

    def _position(self, source: Source, offset: int) -> types.Position:
        """A place as the protocol counts: rows from 0, columns in the units agreed upon."""
        before = source.text[:offset]
        row = before.count("\n")
        line = before.rpartition("\n")[2]
        return types.Position(row, self.server.workspace.position_codec.client_num_units(line))
