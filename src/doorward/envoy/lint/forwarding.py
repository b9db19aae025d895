"""Configurations of nginx, HAProxy, Caddy and Traefik that ask the decision point over HTTP.

What is looked for is what opens: a header of the client that the decision point or the application
believes, a question about something else than what the application gets, requests that pass without
a question. Configurations that do not ask are passed over. Other files that one includes are not
read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from doorward.base.records import mutable, record
from doorward.bundles.located_yaml import Located
from doorward.enforcement.headers import IDENTITIES, OAUTH2_PROXY, OVERRIDES
from doorward.envoy.lint.caddyfile import Directive, ImportsError, Site, read_sites
from doorward.envoy.lint.finding import Finding

__all__ = ["check_caddy", "check_haproxy", "check_nginx", "check_traefik", "is_traefik"]

FORGED: Final = (*OVERRIDES, *IDENTITIES)
_REPORTS: Final = {
    "x-original-content-length": "$http_content_length",
    "x-original-transfer-encoding": "$http_transfer_encoding",
}
"""The headers that tell of a body that the question does not have, and nginx's values."""
_USERS: Final = frozenset({*IDENTITIES, *OAUTH2_PROXY})
_SETTERS: Final[Mapping[str, str]] = {
    "proxy": "proxy_set_header",
    "grpc": "grpc_set_header",
    "fastcgi": "fastcgi_param",
    "uwsgi": "uwsgi_param",
    "scgi": "scgi_param",
}
"""The directive that replaces a header, by the module of nginx that passes requests on."""
_UNDERSCORES: Final = "*_*"
_LOOKED_FOR: Final = (*FORGED, "connection", _UNDERSCORES)
"""The headers that a site must remove before the question."""
_UPGRADES: Final = "connection of upgrades"
_OTHERS: Final = "connection of others"
"""In the names of headers of a block: what is done with one part of the requests."""
_TOKEN: Final = re.compile(r"""#[^\n]*|"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|[{};]|[^\s{};]++""")


@mutable
class _Directive:
    """A statement of nginx: its words, its line, and what is in its block."""

    words: list[str]
    line: int
    block: list[_Directive] = field(default_factory=list)

    def below(self) -> Iterator[_Directive]:
        """Yield this directive and all directives inside its block, level by level."""
        waiting = [self]
        # The list grows while it is walked through.
        for each in waiting:
            waiting += each.block
        yield from waiting


def _parse_nginx(text: str) -> _Directive:
    """Return a directive without words whose block is the whole nginx configuration.

    Comments are skipped and quotes removed; unbalanced braces are tolerated.
    """
    root = _Directive([], 1)
    open_blocks, words, begin = [root], list[str](), 1
    line, position = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        token = match[0]
        if token in ("{", ";"):
            directive = _Directive(words, begin)
            open_blocks[-1].block.append(directive)
            if token == "{":
                open_blocks.append(directive)
            words = []
        elif token == "}":
            if len(open_blocks) > 1:
                open_blocks.pop()
            words = []
        elif not token.startswith("#"):
            begin = begin if words else line
            words.append(token.strip("\"'"))
    return root


def check_nginx(file: str, text: str) -> Iterator[Finding]:
    """Yield findings for an nginx configuration with `auth_request`; nothing without it.

    Checked are switches that open it, and the headers of the locations that use or answer it.
    """
    root = _parse_nginx(text)
    every = list(root.below())
    asking = [
        each for each in every if any(inner.words[:1] == ["auth_request"] for inner in each.block)
    ]
    if not asking:
        return
    named = {
        inner.words[1]
        for each in asking
        for inner in each.block
        if inner.words[:1] == ["auth_request"] and len(inner.words) > 1
    }
    for each in every:
        match each.words:
            case ["auth_request", "off"]:
                yield Finding(
                    file,
                    each.line,
                    "forward-open",
                    "nginx: `auth_request off` switches the check off",
                )
            case ["satisfy", "any"]:
                yield Finding(
                    file,
                    each.line,
                    "forward-open",
                    "nginx: with `satisfy any` another check alone can allow: use `satisfy all`",
                )
            case ["underscores_in_headers", "on"]:
                message = "underscores_in_headers is on"
                yield Finding(file, each.line, "forward-underscores", message)
    yield from _check_nginx_blocks(file, root, named)


@record
class _Passed:
    """The client's headers that one module of nginx replaces when it passes requests on."""

    values: Mapping[str, str]
    """Their new values, by their names in lower case; also parameters that are not headers."""
    included: str = ""
    """A file that is not read and may replace more; "" if there is none."""
    passes_headers: bool = True
    """False if the module passes on no header of the client."""


def _check_nginx_blocks(file: str, root: _Directive, named: set[str]) -> Iterator[Finding]:
    """Yield findings about the headers of each block that sends the question, to a location in
    `named`, or that asks and passes requests on. `auth_request` and the headers that are set may be
    those of an enclosing block.
    """
    nothing = {module: _Passed({}) for module in _SETTERS}
    waiting: list[tuple[_Directive, bool, Mapping[str, _Passed]]] = [(root, False, nothing)]
    # The list grows while it is walked through.
    for block, inherits, inherited in waiting:
        is_question = block.words[:1] == ["location"] and not named.isdisjoint(block.words)
        targets = [each.words[1:] for each in block.block if each.words[:1] == ["auth_request"]]
        passed = {name: _read_module(block, name, inherited[name]) for name in _SETTERS}
        asks = bool(targets) or inherits
        for module in passed:
            is_passed = any(each.words[:1] == [f"{module}_pass"] for each in block.block)
            if (is_question and module == "proxy") or (asks and is_passed):
                yield from _check_nginx_headers(
                    file, block.line, passed[module], is_question=is_question
                )
        # The request that asks is a subrequest, for which nginx does not ask again.
        asks_below = not is_question and (targets[-1] != ["off"] if targets else inherits)
        waiting += [(each, asks_below, passed) for each in block.block]


def _read_module(block: _Directive, module: str, inherited: _Passed) -> _Passed:
    """Return the headers that a module of nginx replaces in a block, inherited ones included."""
    values, included, passes_headers = dict[str, str](), "", inherited.passes_headers
    for inner in block.block:
        match inner.words:
            case [directive, name, *value] if directive == _SETTERS[module]:
                values[_to_header(directive, name)] = " ".join(value)
            case ["include", path] if module in path.rpartition("/")[2]:
                included = path
            case [directive, value] if directive == f"{module}_pass_request_headers":
                passes_headers = value != "off"
    # nginx inherits headers only into a block that sets none; such a file sets some.
    if not values and not included:
        values, included = dict(inherited.values), inherited.included
    return _Passed(values, included, passes_headers)


def _to_header(directive: str, name: str) -> str:
    """Return the header, in lower case, that is replaced by an argument of a directive in
    `_SETTERS`.

    A parameter that begins with "HTTP_" replaces a header; an empty value removes it. The name of
    any other parameter is returned in lower case: it replaces no header.
    """
    header = name.removeprefix("HTTP_")
    if directive.endswith("_param") and header != name:
        return header.lower().replace("_", "-")
    return name.lower()


def _check_nginx_headers(
    file: str, line: int, passed: _Passed, *, is_question: bool
) -> Iterator[Finding]:
    """Yield findings about headers that a location passes on from clients, at its line.

    `is_question`: the location sends the question to the decision point, and must also set method
    and URI.
    """
    if is_question:
        for name, value in (
            ("x-original-method", "$request_method"),
            ("x-original-uri", "$request_uri"),
            *_REPORTS.items(),
        ):
            if passed.values.get(name) != value:
                message = f"{name} is not set to {value}"
                yield Finding(file, line, "forward-question", message)
    for name, value in passed.values.items():
        # An application also reads the user from parameters such as `REMOTE_USER`.
        if name.replace("_", "-") in _USERS and "$http_" in value:
            yield _client_identity(file, line, name)
    set_by_proxy = {"x-original-uri"} if is_question else set()
    if passed.passes_headers:
        taken = {*passed.values, *set_by_proxy}
        yield from _forged_headers(file, line, taken, included=passed.included)


def _client_identity(file: str, line: int, name: str) -> Finding:
    """Return the finding for an identity header that is filled from a header of the client."""
    message = f"{name} is copied from a header of the client: set it from a verified identity"
    return Finding(file, line, "forward-client-identity", message)


def _forged_headers(
    file: str, line: int, taken: set[str], *, included: str = ""
) -> Iterator[Finding]:
    """Yield one finding for all headers of `FORGED` that are not in `taken` (names in lower
    case); it names the file `included`, which is not read and may remove some.
    """
    missing = [name for name in FORGED if name not in taken]
    if missing:
        more = f" and {len(missing) - 1} more are" if len(missing) > 1 else " is"
        message = f"the client's {missing[0]}{more} passed on: remove such headers before the check"
        if included:
            message += f"; `{included}` is not read: remove them beside it"
        yield Finding(file, line, "forward-forged-header", message)


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the words of each line that is not empty or a comment."""
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if words:
            yield number, words


def check_haproxy(file: str, text: str) -> Iterator[Finding]:
    """Yield findings for the frontends of an HAProxy configuration that ask by a Lua action;
    nothing for others. What follows a frontend, such as its backend, is judged as a part of it.
    """
    frontends: list[list[tuple[int, list[str]]]] = [[]]
    for number, words in _lines(text):
        # Rules of another frontend do not apply to the requests of this one.
        if words[0] in ("frontend", "listen"):
            frontends.append([])
        frontends[-1].append((number, words))
    for lines in frontends:
        yield from _check_frontend(file, lines)


def _check_frontend(file: str, lines: Sequence[tuple[int, list[str]]]) -> Iterator[Finding]:
    """Yield findings for a frontend of HAProxy, given its lines as `_lines` yields them; nothing if
    it does not ask.

    Looked for are a deny rule after the question, refused underscores, and removal of headers that
    clients may forge before the question.
    """
    asks = 0
    taken: set[str] = set()
    is_closed = refuses_underscores = False
    for number, words in lines:
        # More than three words are a condition, under which the header may stay, or match other
        # names.
        if words[:2] == ["http-request", "del-header"] and len(words) == 3 and not asks:
            taken.add(words[2].lower())
        if words[:2] == ["http-request", "deny"] and "req.hdr_names" in words:
            refuses_underscores = True
        # Rules run in their order: what is removed after the question was part of the question.
        if words[0] == "http-request" and words[1:2] and words[1].startswith("lua."):
            asks = number
        if asks and words[:2] == ["http-request", "deny"]:
            condition = words[words.index("if") :] if "if" in words else []
            # A further condition would leave a way through.
            is_closed |= condition.count("{") + condition.count("!{") == 1 and "!{" in condition
    if not asks:
        return
    if not is_closed:
        message = "no `http-request deny` follows the check with only its result as condition"
        yield Finding(file, asks, "forward-open", message)
    if not refuses_underscores:
        message = "headers with underscores are passed on: refuse or remove them"
        yield Finding(file, asks, "forward-underscores", message)
    yield from _forged_headers(file, asks, taken)


def check_caddy(file: str, text: str) -> Iterator[Finding]:
    """Yield findings for a Caddyfile: headers of clients that are not removed before a
    `forward_auth`, identity headers that are filled from a client's header, and bodies that are not
    reported. Each site is judged alone, in the order in which Caddy runs its directives.
    """
    try:
        for site in read_sites(text):
            yield from _check_site(file, site)
    except ImportsError:
        message = "imports contain each other, or insert too many directives to be checked"
        yield Finding(file, 1, "forward-open", message)


@mutable
class _Block:
    """A block of a site, and what Caddy has done before it."""

    directives: list[Directive]
    is_route: bool = False
    """True if the directives run as they are written."""
    taken: set[str] = field(default_factory=set)
    """The headers of `_LOOKED_FOR` that are removed."""
    headers: set[str] = field(default_factory=set)
    """The headers of `_REPORTS` that are set, and marks for `Connection`."""
    matchers: dict[str, list[str]] = field(default_factory=dict)
    """The conditions of named matchers, in lower case."""


def _check_site(file: str, site: Site) -> Iterator[Finding]:
    """Yield the findings of all blocks of a site."""
    blocks = [_Block(site.block)]
    for block in blocks:
        directives = site.run_order(block.directives, is_route=block.is_route)
        for each in directives:
            if each.name.startswith("@"):
                words = each.block[0].words if len(each.block) == 1 else each.words[1:]
                block.matchers[each.name] = [word.lower() for word in words]
        for each in directives:
            yield from _identities_of_clients(file, each)
            if each.name == "request_header":
                _note_header(block, each.words[1:])
            elif each.name == "forward_auth":
                inner = {word.lower() for up in each.block for word in up.words[1:-1]}
                yield from _check_question(file, each.line, block, block.headers | inner)
            if each.block:
                below = _Block(each.block, each.name == "route")
                below.taken, below.headers = set(block.taken), set(block.headers)
                below.matchers = dict(block.matchers)
                blocks.append(below)


def _identities_of_clients(file: str, directive: Directive) -> Iterator[Finding]:
    """Yield a finding if a directive fills an identity header from a header of the client."""
    words = directive.words
    if directive.name in ("header_up", "request_header") and len(words) > 2:
        name = words[-2].lower().lstrip("+")
        if name in _USERS and "header." in words[-1]:
            yield _client_identity(file, directive.line, name)


def _note_header(block: _Block, words: Sequence[str]) -> None:
    """Note what a `request_header` with these arguments does. A matcher leaves the headers of other
    requests; two that exclude each other may treat `Connection` of upgrades and of the others.
    """
    matcher = words[0] if words and words[0].startswith(("@", "/")) else ""
    rest = words[1:] if matcher or words[:1] == ["*"] else words
    field_name = rest[0].lower() if rest else ""
    condition = block.matchers.get(matcher)
    if not field_name.startswith("-"):
        block.headers |= _REPORTS.keys() & {field_name}
        if field_name == "connection" and condition == ["header", "upgrade", "*"]:
            block.headers.add(_UPGRADES)
    elif not matcher:
        block.taken |= {name for name in _LOOKED_FOR if _matches_header(field_name[1:], name)}
    elif field_name == "-connection" and condition == ["not", "header", "upgrade", "*"]:
        block.headers.add(_OTHERS)
    if {_UPGRADES, _OTHERS} <= block.headers:
        block.taken.add("connection")


def _check_question(file: str, line: int, block: _Block, headers: set[str]) -> Iterator[Finding]:
    """Yield the findings of a `forward_auth`, before which Caddy has done what `block` says;
    `headers` are set for the question.
    """
    yield from _forged_headers(file, line, block.taken)
    for name in sorted(_REPORTS.keys() - headers):
        message = f"{name} is not set: the check does not know of bodies"
        yield Finding(file, line, "forward-question", message)
    if _UNDERSCORES not in block.taken:
        message = "headers with underscores are passed on: refuse or remove them"
        yield Finding(file, line, "forward-underscores", message)
    if "connection" not in block.taken:
        message = "the client's Connection header is passed on, and names headers to remove"
        yield Finding(file, line, "forward-connection", message)


def _matches_header(pattern: str, name: str) -> bool:
    """Return True if a pattern of Caddy removes the header `name`: `*` at its beginning or end
    stands for any characters. `*_*`, as a name, stands for all names with underscores.
    """
    text = pattern.strip("*")
    is_start, is_end = pattern.startswith("*"), pattern.endswith("*")
    if is_start and is_end:
        return text in name
    if name == _UNDERSCORES:
        return False
    if is_start:
        return name.endswith(text)
    return name.startswith(text) if is_end else name == pattern


def is_traefik(document: Located) -> bool:
    """Return True for a Traefik configuration that has a `forwardAuth` middleware or entry
    points.
    """
    middlewares = document.get("http", "middlewares").fields().values()
    asks = any("forwardAuth" in each.fields() for each in middlewares)
    return asks or bool(document.get("entryPoints").fields())


def check_traefik(file: str, document: Located) -> Iterator[Finding]:
    """Yield findings for a Traefik configuration: entry points that pass on aliases of headers,
    `forwardAuth` middlewares with unsafe settings, and routers that do not remove clients' headers
    before `forwardAuth`.
    """
    for point in document.get("entryPoints").fields().values():
        strategy = point.get("http", "aliasHeadersStrategy")
        if strategy.value not in ("reject", "delete"):
            message = "aliasHeadersStrategy is neither reject nor delete"
            yield Finding(file, point.line, "forward-underscores", message)
    middlewares = document.get("http", "middlewares").fields()
    for each in middlewares.values():
        question = each.get("forwardAuth")
        if question.value is None:
            continue
        if (trusts := question.get("trustForwardHeader")).value is True:
            message = "trustForwardHeader is true"
            yield Finding(file, trusts.line, "forward-question", message)
        if question.get("forwardBody").value is True and not question.get("maxBodySize").value:
            message = "forwardBody without maxBodySize"
            yield Finding(file, question.line, "forward-body", message)
    for router in document.get("http", "routers").fields().values():
        taken: set[str] = set()
        for name in router.get("middlewares").items():
            chosen = middlewares.get(str(name.value).partition("@")[0])
            if chosen is None:
                continue
            removed = chosen.get("headers", "customRequestHeaders").fields()
            taken |= {key.lower() for key, value in removed.items() if value.value == ""}
            if chosen.get("forwardAuth").value is not None:
                yield from _forged_headers(file, router.line, taken)
