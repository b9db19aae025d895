"""The Language Server Protocol over standard input and output, for the answers of `language`.

Only this file knows the protocol's library. Policies of the workspace are read when the editor
connects, and again when it reports that a file has changed. Of a file that is open in the editor
the editor's text counts, saved or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import TextDocument

from doorward import __version__
from doorward.bundles.loader import LoadError, list_files, load
from doorward.lsp.language import NEAR_NAME, Policies, RenameError
from doorward.lsp.properties import PROPERTY, Judgement, judge
from doorward.rego import REGISTRY, Diagnostic, Registry
from doorward.rego.shared import Fix, Source, Span
from doorward.rego.tools import Rule

__all__ = ["make_server"]

PAUSE: Final = 0.2
"""The seconds without a change of a document before the policies are checked."""

MAX_BYTES: Final = 16 << 20
"""The most bytes that are read of a policy; the rest is ignored."""

ADD_TEST: Final = "doorward.addTest"
"""The command of a lens with a counterexample: append its test to the property's file."""
SHOW_VERDICT: Final = "doorward.showVerdict"
"""The command of other lenses: show the report on the property as a message."""

_KINDS = {
    "builtin": types.CompletionItemKind.Function,
    "document": types.CompletionItemKind.Module,
    "field": types.CompletionItemKind.Field,
    "keyword": types.CompletionItemKind.Keyword,
    "rule": types.CompletionItemKind.Variable,
    "variable": types.CompletionItemKind.Variable,
}


def make_server(registry: Registry = REGISTRY, data: Sequence[str] = ()) -> LanguageServer:
    """Return a server that is not started, for policies that may call the built-ins of `registry`.
    `data`: paths of data files and folders for the verdicts on `never_` rules.
    """
    server = LanguageServer("doorward", __version__, types.TextDocumentSyncKind.Full)
    editor = _Editor(server, registry, data)
    answers: dict[str, Callable[..., Any]] = {
        types.INITIALIZED: editor.read_workspace,
        types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: editor.read_folders_again,
        types.WORKSPACE_DID_CHANGE_WATCHED_FILES: editor.files_changed,
        types.TEXT_DOCUMENT_DID_OPEN: editor.opened,
        types.TEXT_DOCUMENT_DID_CHANGE: editor.changed,
        types.TEXT_DOCUMENT_DID_CLOSE: editor.closed,
        types.TEXT_DOCUMENT_HOVER: editor.hover,
        types.TEXT_DOCUMENT_DEFINITION: editor.definition,
        types.TEXT_DOCUMENT_REFERENCES: editor.references,
        types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: editor.highlights,
        types.TEXT_DOCUMENT_PREPARE_RENAME: editor.prepare_rename,
        types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: editor.symbols,
        types.WORKSPACE_SYMBOL: editor.search,
        types.TEXT_DOCUMENT_FORMATTING: editor.formatting,
    }
    for name, answer in answers.items():
        server.feature(name)(partial(answer))  # the library marks what it is given
    with_options: list[tuple[str, Any, Callable[..., Any]]] = [
        (
            types.TEXT_DOCUMENT_COMPLETION,
            types.CompletionOptions(trigger_characters=["."]),
            editor.completion,
        ),
        (
            types.TEXT_DOCUMENT_SIGNATURE_HELP,
            types.SignatureHelpOptions(trigger_characters=["(", ","]),
            editor.signature_help,
        ),
        (
            types.TEXT_DOCUMENT_CODE_LENS,
            types.CodeLensOptions(resolve_provider=True),
            editor.lenses,
        ),
        (types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True), editor.rename),
        (
            types.TEXT_DOCUMENT_CODE_ACTION,
            types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
            editor.code_actions,
        ),
    ]
    for name, options, answer in with_options:
        server.feature(name, options)(partial(answer))
    server.feature(types.CODE_LENS_RESOLVE)(partial(editor.resolve_lens))
    server.command(ADD_TEST)(partial(editor.add_test))
    server.command(SHOW_VERDICT)(partial(editor.show_verdict))
    return server


class _Editor:
    """One connected editor: its policies under the URIs by which it knows them, those that it has
    open, and the diagnostics that it was sent. Its methods are the handlers of the protocol's
    messages.
    """

    def __init__(self, server: LanguageServer, registry: Registry, data: Sequence[str]) -> None:
        self.server = server
        self.policies = Policies(registry)
        self._data = data
        self._open: set[str] = set()
        self._published: dict[str, list[types.Diagnostic]] = {}
        self._problems: dict[str, list[Diagnostic]] = {}
        self._waiting: asyncio.TimerHandle | None = None

    # What the editor tells

    def read_workspace(self, _: types.InitializedParams) -> None:
        """Read the policies of the workspace, ask the editor to report changed files, and publish
        the errors.
        """
        for folder in self._folders():
            self._read_folder(folder)
        self._watch()
        self._publish()

    def _folders(self) -> Iterable[str]:
        """Return the paths of the workspace's folders; if there are none, its root. Those that are
        not on a file system are left out.
        """
        workspace = self.server.workspace
        uris = [folder.uri for folder in workspace.folders.values()]
        if not uris and workspace.root_uri:
            uris = [workspace.root_uri]
        return [path for uri in uris if (path := to_fs_path(uri)) is not None]

    def _watch(self) -> None:
        """Ask the editor to report changes of `*.rego` files outside of it; nothing if it
        cannot.
        """
        capabilities = self.server.client_capabilities.workspace
        watched_files = capabilities.did_change_watched_files if capabilities is not None else None
        if watched_files is None or not watched_files.dynamic_registration:
            return
        options = types.DidChangeWatchedFilesRegistrationOptions(
            [types.FileSystemWatcher("**/*.rego")]
        )
        method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        registration = types.Registration("policies", method, options)
        self.server.client_register_capability(types.RegistrationParams([registration]))

    def read_folders_again(self, _: types.DidChangeWorkspaceFoldersParams) -> None:
        """Handle a change of the workspace's folders: read all of them again and publish the
        errors. Open files keep the editor's text.
        """
        for uri in set(self.policies.texts) - self._open:
            self.policies.remove(uri)
        for folder in self._folders():
            self._read_folder(folder)
        self._publish()

    def files_changed(self, params: types.DidChangeWatchedFilesParams) -> None:
        """Handle a report of files that changed, appeared or were deleted: read them again, except
        open ones, and publish the errors.
        """
        for change in params.changes:
            path = to_fs_path(change.uri)
            if change.uri in self._open or path is None or not path.endswith(".rego"):
                continue
            self.policies.remove(change.uri)
            if Path(path).is_file():
                self._read(path)
        self._publish()

    def _read_folder(self, folder: str) -> None:
        """Read the policies below a folder; a failure to list them is a warning in the editor's
        log.
        """
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
        """Read a policy from disk and store it, unless it is open. A file that cannot be read, is
        longer than `MAX_BYTES` or is not UTF-8 is ignored.
        """
        uri = from_fs_path(name)
        if uri is None or uri in self._open:
            return
        try:
            with open(name, "rb") as file:
                content = file.read(MAX_BYTES + 1)
            text = content.decode("utf-8")
        except (OSError, UnicodeDecodeError):
            return  # The commands say what is wrong with it; here it is only not known.
        if len(content) <= MAX_BYTES:  # the part would have errors that the file has not
            self.policies.put(uri, text)

    def opened(self, params: types.DidOpenTextDocumentParams) -> None:
        """Handle an opened document: from now on its text is the editor's."""
        self._open.add(params.text_document.uri)
        self._update_text(params.text_document.uri)

    def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        self._update_text(params.text_document.uri)

    def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        """Handle a closed document: its text is that of the file again, if there is one. Publishes
        the errors.
        """
        uri = params.text_document.uri
        path = to_fs_path(uri)
        self._open.discard(uri)
        self.policies.remove(uri)
        if path is not None and Path(path).is_file():
            self._read(path)
        self._publish()

    def _update_text(self, uri: str) -> None:
        """Store the editor's text of an open file, and publish the errors `PAUSE` seconds later
        unless another change comes before.
        """
        self.policies.put(uri, self._document(uri).source)
        # Everything is checked together, which no keystroke should wait for.
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = asyncio.get_running_loop().call_later(PAUSE, self._publish)

    def _publish(self) -> None:
        """Check all policies, and send the editor the diagnostics of those files whose diagnostics
        changed since the last call.
        """
        self._problems = self.policies.diagnostics()
        by_uri = {
            uri: [self._diagnostic(each) for each in diagnostics]
            for uri, diagnostics in self._problems.items()
        }
        for uri in by_uri.keys() | self._published.keys():
            now = by_uri.get(uri, [])
            # An editor redraws what it is sent: most files did not change.
            if now != self._published.get(uri, []):
                params = types.PublishDiagnosticsParams(uri, now)
                self.server.text_document_publish_diagnostics(params)
        self._published = by_uri

    # What the editor asks

    def hover(self, params: types.HoverParams) -> types.Hover | None:
        """Return the description of the name at a position, as Markdown; None if there is none."""
        uri, offset = self._place(params.text_document.uri, params.position)
        text = self.policies.hover(uri, offset)
        if not text:
            return None
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text))

    def definition(self, params: types.DefinitionParams) -> list[types.Location]:
        uri, offset = self._place(params.text_document.uri, params.position)
        return self._locations(self.policies.definition(uri, offset))

    def references(self, params: types.ReferenceParams) -> list[types.Location]:
        """Return the occurrences of the symbol at a position in all files, with its definitions if
        the editor requests them.
        """
        uri, offset = self._place(params.text_document.uri, params.position)
        definitions = params.context.include_declaration
        return self._locations(self.policies.references(uri, offset, definitions=definitions))

    def highlights(self, params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
        """Return the occurrences of the symbol at a position in the same file."""
        uri, offset = self._place(params.text_document.uri, params.position)
        spans = self.policies.references(uri, offset)
        return [types.DocumentHighlight(self._range(span)) for span in spans if span.file == uri]

    def prepare_rename(self, params: types.PrepareRenameParams) -> types.Range | None:
        """Return the range of the name at a position; None if it cannot be renamed."""
        uri, offset = self._place(params.text_document.uri, params.position)
        span = self.policies.renamable(uri, offset)
        return None if span is None else self._range(span)

    def rename(self, params: types.RenameParams) -> types.WorkspaceEdit:
        """Return the edits that rename a symbol in all files. JsonRpcInvalidParams, which the
        editor shows, if the symbol cannot be renamed, the name is invalid or taken, or a policy has
        errors.
        """
        uri, offset = self._place(params.text_document.uri, params.position)
        try:
            edits = self.policies.renamed(uri, offset, params.new_name)
        except RenameError as error:
            raise JsonRpcInvalidParams(str(error)) from None
        return types.WorkspaceEdit(
            {file: [self._edit(file, fix) for fix in fixes] for file, fixes in edits.items()}
        )

    def completion(self, params: types.CompletionParams) -> types.CompletionList:
        """Return the completions of the name before a position."""
        uri, offset = self._place(params.text_document.uri, params.position)
        items = [
            types.CompletionItem(each.text, kind=_KINDS[each.kind], detail=each.detail or None)
            for each in self.policies.completions(uri, offset)
        ]
        return types.CompletionList(is_incomplete=False, items=items)

    def signature_help(self, params: types.SignatureHelpParams) -> types.SignatureHelp | None:
        """Return the signatures of the call around a position and the present operand; None outside
        of calls.
        """
        uri, offset = self._place(params.text_document.uri, params.position)
        overloads, operand = self.policies.signatures(uri, offset)
        if not overloads:
            return None
        signatures = [
            types.SignatureInformation(
                each.label,
                each.doc or None,
                [types.ParameterInformation(name) for name in each.parameters],
            )
            for each in overloads
        ]
        return types.SignatureHelp(signatures, 0, operand)

    def symbols(self, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        """Return the outline of a file: its package, if it has one, and its rules."""
        uri = params.text_document.uri
        rules = [
            types.DocumentSymbol(
                rule.head.ref.span.text,
                _symbol_kind(rule),
                self._range(rule.span),
                self._range(rule.head.ref.span),
            )
            for rule in self.policies.rules(uri)
        ]
        package = self.policies.package(uri)
        if package is None:
            return rules
        name = package.text.removeprefix("package").strip()
        range_, kind = self._range(package), types.SymbolKind.Package
        return [types.DocumentSymbol(name, kind, range_, range_), *rules]

    def lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        """Return a code lens without a title above each property (`never_` rule); [] for a file
        without a package.
        """
        uri = params.text_document.uri
        package = self.policies.package(uri)
        if package is None:
            return []
        below = package.text.removeprefix("package").strip()
        return [
            types.CodeLens(self._range(rule.head.ref.span), data=[uri, f"data.{below}.{name}"])
            for rule in self.policies.rules(uri)
            if (name := rule.head.ref.span.text).startswith(PROPERTY)
        ]

    async def resolve_lens(self, lens: types.CodeLens) -> types.CodeLens:
        """Judge the property of a lens, and set the title to the verdict. A click then adds the
        counterexample's test or, without one or if the editor cannot edit, shows the report.
        """
        uri, name = _lens_data(lens.data)
        judgement = await self._judge(name)
        command = ADD_TEST if judgement.test and self._can_edit() else SHOW_VERDICT
        lens.command = types.Command(judgement.title, command, arguments=[uri, name])
        return lens

    def _can_edit(self) -> bool:
        """Return True if the editor lets the server change a document."""
        workspace = self.server.client_capabilities.workspace
        return workspace is not None and bool(workspace.apply_edit)

    async def _judge(self, name: str) -> Judgement:
        """Judge a property in a thread, since the search may take half a second and reading data
        longer. Data that cannot be read gives a judgement that says so.
        """
        texts, registry = dict(self.policies.texts), self.policies.registry

        def run() -> Judgement:
            """Read the data and judge the property; runs in a thread of its own."""
            try:
                data = load(self._data).data if self._data else {}
            except LoadError as error:
                return Judgement("cannot say: data cannot be read", str(error))
            return judge(texts, data, registry, name)

        return await asyncio.to_thread(run)

    async def show_verdict(self, *arguments: Any) -> None:
        """Handle a click on a lens: judge the property again and show the report as a message."""
        _, name = _lens_data(arguments)
        judgement = await self._judge(name)
        self._show(judgement.report)

    async def add_test(self, *arguments: Any) -> None:
        """Handle a click on a lens with a counterexample: ask the editor to append its test to the
        property's file. If the file has it, or there is no counterexample any more, show a message
        instead.
        """
        uri, name = _lens_data(arguments)
        judgement = await self._judge(name)
        text = self.policies.texts.get(uri)
        if not judgement.test or text is None:
            self._show(judgement.report)
            return
        if judgement.test in text:
            self._show(f"The file already has this test:\n{judgement.test}")
            return
        end = self._position(Source(uri, text), len(text))
        blank = "\n" if text.endswith("\n") else "\n\n"
        edit = types.TextEdit(types.Range(end, end), f"{blank}{judgement.test}\n")
        params = types.ApplyWorkspaceEditParams(types.WorkspaceEdit({uri: [edit]}), name)
        # Nobody waits for the answer: an editor that refuses tells its user.
        self.server.workspace_apply_edit(params)

    def _show(self, text: str) -> None:
        self.server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))

    def search(self, params: types.WorkspaceSymbolParams) -> list[types.WorkspaceSymbol]:
        """Return the rules of all policies whose path contains the characters of the query in their
        order, in any case; at most `MAX_SYMBOLS`.
        """
        return [
            types.WorkspaceSymbol(
                location=types.Location(rule.span.file, self._range(rule.head.ref.span)),
                name=path,
                kind=_symbol_kind(rule),
            )
            for path, rule in self.policies.search(params.query)
        ]

    def code_actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Return a quick fix for each diagnostic of the file that has a `fix` and overlaps the
        range.
        """
        uri = params.text_document.uri
        actions = []
        for diagnostic in self._problems.get(uri, []):
            fix, displayed = diagnostic.fix, self._diagnostic(diagnostic)
            if fix is None or not _overlap(displayed.range, params.range):
                continue
            edit = types.WorkspaceEdit({uri: [self._edit(uri, fix)]})
            kind = types.CodeActionKind.QuickFix
            title = diagnostic.hint or diagnostic.message
            actions.append(
                types.CodeAction(title, kind, diagnostics=[displayed], is_preferred=True, edit=edit)
            )
        return actions

    def formatting(self, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        """Return one edit that replaces the whole text by the formatted one; None if it cannot be
        parsed or formatted.
        """
        uri = params.text_document.uri
        formatted = self.policies.formatted(uri)
        if formatted is None:
            return None
        text = self.policies.texts[uri]
        # Below the last line, so that all of it is replaced, whether it ends with a line break or
        # not.
        end = types.Position(text.count("\n") + 1, 0)
        return [types.TextEdit(types.Range(types.Position(0, 0), end), formatted)]

    # Places

    def _document(self, uri: str) -> TextDocument:
        return self.server.workspace.get_text_document(uri)

    def _place(self, uri: str, position: types.Position) -> tuple[str, int]:
        return uri, self._document(uri).offset_at_position(position)

    def _locations(self, spans: Iterable[Span]) -> list[types.Location]:
        return [types.Location(span.file, self._range(span)) for span in spans]

    def _diagnostic(self, problem: Diagnostic) -> types.Diagnostic:
        """Return a problem in the form of the protocol, the hint on a line below the message. Its
        severity is Error, or Information for a name that is only similar to another.
        """
        message = (
            problem.message if not problem.hint else f"{problem.message}\nhint: {problem.hint}"
        )
        severity = types.DiagnosticSeverity.Error
        if problem.code == NEAR_NAME:
            severity = types.DiagnosticSeverity.Information
        return types.Diagnostic(
            self._range(problem.span),
            message,
            severity=severity,
            code=problem.code,
            source="doorward",
        )

    def _edit(self, uri: str, fix: Fix) -> types.TextEdit:
        """Return a fix of a file as an edit of the protocol."""
        source = Source(uri, self.policies.texts[uri])
        start, end = self._position(source, fix.start), self._position(source, fix.end)
        return types.TextEdit(types.Range(start, end), fix.text)

    def _range(self, span: Span) -> types.Range:
        start = self._position(span.source, span.start)
        return types.Range(start, self._position(span.source, max(span.end, span.start)))

    def _position(self, source: Source, offset: int) -> types.Position:
        """Return an offset as the protocol counts: rows from 0, columns in the units that the
        editor chose.
        """
        before = source.text[:offset]
        row = before.count("\n")
        line = before.rpartition("\n")[2]
        return types.Position(row, self.server.workspace.position_codec.client_num_units(line))


def _lens_data(value: Any) -> tuple[str, str]:
    """Return the URI and the property of a lens from what the editor sends back;
    JsonRpcInvalidParams for other data.
    """
    match value:
        case [str(uri), str(name)]:
            return uri, name
    raise JsonRpcInvalidParams(
        "the arguments of the code lens must be a URI and the name of a property"
    )


def _symbol_kind(rule: Rule) -> types.SymbolKind:
    """Return the icon of a rule: a function, an array for a partial set, or a variable."""
    if rule.head.args is not None:
        return types.SymbolKind.Function
    return types.SymbolKind.Array if rule.head.key is not None else types.SymbolKind.Variable


def _overlap(one: types.Range, other: types.Range) -> bool:
    return one.start <= other.end and other.start <= one.end
