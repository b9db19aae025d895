"""A command line of curl -> the request that curl would send.

The shell's quotes and curl's options are read as bash and curl read them, so that the decision is
about the request that the command sends. What would come from elsewhere (variables, files, other
commands), an option that is not known, or several requests are a CommandError: their values could
be taken for something else. Nothing is sent.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import field
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes, urlsplit

from doorward.base.records import mutable
from doorward.enforcement.http_input import HttpRequest

__all__ = ["CommandError", "read_curl"]

_SWITCHES: Final = {
    **{"-G": "--get", "-I": "--head", "-g": "--globoff"},
    **dict.fromkeys(("--get", "--head", "--globoff", "--path-as-is", "--basic"), ""),
    **dict.fromkeys(
        (
            *("-#", "-0", "-1", "-2", "-3", "-4", "-6", "-f", "-i", "-J", "-j", "-k", "-L", "-N"),
            *("-O", "-q", "-R", "-S", "-s", "-v", "-Z", "--cert-status", "--compressed"),
            *("--create-dirs", "--disable", "--fail", "--fail-early", "--fail-with-body"),
            *("--http1.0", "--http1.1", "--http2", "--http2-prior-knowledge", "--http3"),
            *("--http3-only", "--include", "--insecure", "--ipv4", "--ipv6"),
            *("--junk-session-cookies", "--location", "--location-trusted", "--no-alpn"),
            *("--no-buffer", "--no-clobber", "--no-keepalive", "--no-progress-meter"),
            *("--no-sessionid", "--parallel", "--post301", "--post302", "--post303"),
            *("--progress-bar", "--raw", "--remote-header-name", "--remote-name"),
            *("--remote-name-all", "--remote-time", "--remove-on-error", "--retry-all-errors"),
            *("--retry-connrefused", "--show-error", "--silent", "--ssl", "--ssl-no-revoke"),
            *("--ssl-reqd", "--styled-output", "--tcp-fastopen", "--tcp-nodelay", "--tlsv1"),
            *("--tlsv1.0", "--tlsv1.1", "--tlsv1.2", "--tlsv1.3", "--trace-time", "--verbose"),
        ),
        "",
    ),
}
"""Options of curl without a value, by name; those with another name mean the same as it."""
_VALUES: Final = {
    **{"-A": "--user-agent", "-b": "--cookie", "-d": "--data", "-e": "--referer"},
    **{"-H": "--header", "-r": "--range", "-u": "--user", "-X": "--request"},
    # They differ only in how they read files, which are refused.
    **{"--data-ascii": "--data", "--data-binary": "--data"},
    **dict.fromkeys(
        (
            *("--cookie", "--data", "--data-raw", "--data-urlencode", "--header", "--json"),
            *("--oauth2-bearer", "--range", "--referer", "--request", "--url", "--user"),
            "--user-agent",
        ),
        "",
    ),
    **dict.fromkeys(
        (
            *("-c", "-D", "-E", "-m", "-o", "-U", "-w", "-x", "-Y", "-y", "--cacert", "--capath"),
            *("--cert", "--cert-type", "--ciphers", "--connect-timeout", "--connect-to"),
            *("--cookie-jar", "--crlfile", "--curves", "--dns-servers", "--doh-url"),
            *("--dump-header", "--etag-save", "--expect100-timeout", "--happy-eyeballs-timeout-ms"),
            *("--hsts", "--interface", "--keepalive-time", "--key", "--key-type", "--libcurl"),
            *("--limit-rate", "--local-port", "--max-filesize", "--max-redirs", "--max-time"),
            *("--noproxy", "--output", "--output-dir", "--parallel-max", "--pass"),
            *("--pinnedpubkey", "--preproxy", "--proto", "--proto-redir", "--proxy"),
            *("--proxy-cacert", "--proxy-cert", "--proxy-header", "--proxy-key", "--proxy-user"),
            *("--rate", "--resolve", "--retry", "--retry-delay", "--retry-max-time", "--socks4"),
            *("--socks4a", "--socks5", "--socks5-hostname", "--speed-limit", "--speed-time"),
            *("--stderr", "--tls-max", "--tls13-ciphers", "--trace", "--trace-ascii"),
            *("--unix-socket", "--write-out"),
        ),
        "-",
    ),
}
"""Options of curl with a value, by name: `-` if the input has no field for it, another name if it
means the same.
"""
_ESCAPES: Final = {
    **{"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"},
    **{"v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?"},
}
_ANSI: Final = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(.))", re.DOTALL
)
_OPERATORS: Final = frozenset("&;|<>()`\n")
_NO_HOST: Final = re.compile(r"[ \r\n\t/#?!@{}\[\]\\$'\"^`*<>=;,+&()]")
_RANGE: Final = re.compile(r"\d*-\d*(,\d*-\d*)*")
_METHOD: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BLANKS: Final = " \t"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_FILE: Final = "must be in the command: replace the file of the curl option by its text"


class CommandError(ValueError):
    """A command that cannot be read; the message says why in one line."""


def read_curl(text: str) -> HttpRequest:
    """Return the request that a command of curl sends first. CommandError if it sends none, or
    several, or depends on more than its text.
    """
    words = split_words(text)
    if words[:1] not in (["curl"], ["curl.exe"]):
        raise CommandError("the command is not curl")
    return _request(_read_options(words[1:]))


def split_words(text: str) -> list[str]:
    """Split a command into words, and remove quotes, as bash does. CommandError if the shell would
    do more: for variables, other commands and files, and for an open quote.
    """
    text = text.replace("\r\n", "\n").strip()
    words: list[str] = []
    word: list[str] | None = None
    index = 0
    while index < len(text):
        character = text[index]
        following = text[index + 1 : index + 2]
        if character == "\\":
            # A line break behind it is removed, and joins two lines.
            if following != "\n":
                word = [] if word is None else word
                word.append(following)
            index += 2
            continue
        if character in _BLANKS:
            if word is not None:
                words.append("".join(word))
            word = None
            index += 1
            continue
        if character == "#" and word is None:
            raise CommandError("the command has a comment: remove it")
        if character in _OPERATORS:
            shown = "a line break" if character == "\n" else f"`{character}`"
            raise CommandError(
                f"the shell would read {shown} as the end of the curl command: remove what "
                "follows, or quote it"
            )
        if character == "{":
            raise CommandError("the shell may replace braces: quote them")
        if character == "^" and following in ('"', "\n", "^"):
            raise CommandError("the command is for cmd of Windows: copy it for bash")
        if word is None:
            word = []
        if character == "$" and following == "'":
            part, index = _read_ansi(text, index + 2)
        elif character == "'":
            end = _find_quote(text, "'", index + 1)
            part, index = text[index + 1 : end], end + 1
        elif character == '"':
            part, index = _read_double(text, index + 1)
        else:
            _refuse_variable(text, index)
            part, index = character, index + 1
        word.append(part)
    if word is not None:
        words.append("".join(word))
    return words


def _find_quote(text: str, quote: str, start: int) -> int:
    """Return the position of the closing quote; CommandError if there is none."""
    end = text.find(quote, start)
    if end < 0:
        raise CommandError("the curl command is not complete: no closing quotation")
    return end


def _read_double(text: str, index: int) -> tuple[str, int]:
    """Read a text in double quotes, and return it with the position behind it. CommandError if it
    is not closed, or contains a variable or a command.
    """
    parts: list[str] = []
    while True:
        character = text[index : index + 1]
        if not character:
            raise CommandError("the curl command is not complete: no closing quotation")
        if character == '"':
            return "".join(parts), index + 1
        if character == "\\" and (following := text[index + 1 : index + 2]) in '$`"\\\n':
            parts.append("" if following == "\n" else following)
            index += 2
            continue
        if character == "`":
            raise CommandError("replace the command in the curl command by its output")
        _refuse_variable(text, index)
        parts.append(character)
        index += 1


def _refuse_variable(text: str, index: int) -> None:
    """Raise CommandError if the shell would replace what begins here."""
    if text[index] == "$" and re.match(r"[A-Za-z0-9_{(\[@*#?$!\"-]", text[index + 1 : index + 2]):
        raise CommandError("replace the variables in the curl command by their values")


def _read_ansi(text: str, start: int) -> tuple[str, int]:
    """Read a text in `$'…'`, with escapes as in C, and return it with the position behind it.
    CommandError if it is not closed, or its bytes are not UTF-8.
    """
    end = start
    while text[end : end + 1] not in ("'", ""):
        end += 2 if text[end] == "\\" else 1
    if end >= len(text):
        raise CommandError("the curl command is not complete: no closing quotation")

    def octets(match: re.Match[str]) -> str:
        octal, hexadecimal, short, long, other = match.groups()
        if octal or hexadecimal:
            # Bytes, of which several may be one character.
            number = int(octal, 8) & 255 if octal else int(hexadecimal, 16)
            return bytes([number]).decode("utf-8", "surrogateescape")
        if short or long:
            return chr(min(int(short or long, 16), 0x10FFFF))
        return _ESCAPES.get(other, f"\\{other}")

    value = _ANSI.sub(octets, text[start:end])
    try:
        return value.encode("utf-8", "surrogateescape").decode(), end + 1
    except UnicodeError:
        raise CommandError("the bytes of a text in $'…' are not UTF-8") from None


@mutable
class _Command:
    """The options of a command that its request depends on."""

    method: str | None = None
    urls: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """The values of `-H`."""
    data: str | None = None
    is_json: bool = False
    cookies: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    """The headers of other options, by lower-case name."""
    bearer: str = ""
    """The token of `--oauth2-bearer`, which precedes `-u`."""
    switches: set[str] = field(default_factory=set)

    def add_data(self, text: str, separator: str = "&") -> None:
        """Append to the data, which several options give."""
        self.data = text if self.data is None else f"{self.data}{separator}{text}"


def _read_options(words: list[str]) -> _Command:
    """Read the options and URLs. CommandError for an option that is not known, lacks its value or
    reads a file.
    """
    command = _Command()
    waiting = list(reversed(words))
    are_options = True
    while waiting:
        word = waiting.pop()
        if not are_options or not word.startswith("-"):
            command.urls.append(word)
        elif word == "--":
            are_options = False
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            _apply(command, name, value if equals else None, waiting)
        elif len(word) == 1:
            raise CommandError("curl reads no URL from `-`: replace it")
        else:
            # `-sXPOST`: switches, and an option with its value.
            for index, letter in enumerate(word[1:], start=2):
                name = f"-{letter}"
                is_last = name in _VALUES
                _apply(command, name, word[index:] or None if is_last else None, waiting)
                if is_last:
                    break
    return command


def _apply(command: _Command, name: str, value: str | None, waiting: list[str]) -> None:
    """Apply one option; `value` is the one in its word, else the next of `waiting` is its value."""
    if name in _SWITCHES and value is None:
        command.switches.add(_SWITCHES[name] or name)
        return
    if name not in _VALUES:
        raise CommandError(f"the option {name} of curl is not known here: remove it")
    if value is None:
        if not waiting:
            raise CommandError(f"the option {name} of curl needs a value")
        value = waiting.pop()
    meaning = _VALUES[name] or name
    if meaning == "-":
        return
    if value.startswith("@") and meaning in ("--data", "--json"):
        raise CommandError(f"the body {_FILE}")
    match meaning:
        case "--request":
            command.method = value
        case "--url":
            command.urls.append(value)
        case "--header":
            if value.startswith("@"):
                raise CommandError(f"the headers {_FILE}")
            command.lines.append(value)
        case "--data" | "--data-raw":
            command.add_data(value)
        case "--data-urlencode":
            command.add_data(_encode_data(value))
        case "--json":
            command.add_data(value, "")
            command.is_json = True
        case "--cookie":
            if "=" not in value:
                raise CommandError(f"the cookies {_FILE}")
            command.cookies.append(value)
        case "--user":
            command.headers["authorization"] = _basic(value)
        case "--oauth2-bearer":
            command.bearer = value
        case "--range":
            if not _RANGE.fullmatch(value):
                raise CommandError(f"the range of the curl command is invalid: `{value[:100]}`")
            command.headers["range"] = f"bytes={value}"
        case "--referer":
            command.headers["referer"] = value.partition(";auto")[0]
        case "--user-agent":
            command.headers["user-agent"] = value


def _basic(pair: str) -> str:
    """The value of `Authorization` for `user:password`; CommandError without a password, for which
    curl would ask.
    """
    if ":" not in pair:
        raise CommandError("the option -u of curl needs user:password")
    return f"Basic {b64encode(pair.encode('utf-8', 'surrogatepass')).decode()}"


def _encode_data(value: str) -> str:
    """Return the data of `--data-urlencode`: `content`, `=content` or `name=content`."""
    name, equals, content = value.partition("=")
    if not equals:
        if "@" in value:
            raise CommandError(f"the body {_FILE}")
        name, content = "", value
    encoded = quote_from_bytes(content.encode("utf-8", "surrogatepass"), safe="").replace(
        "%20", "+"
    )
    return f"{name}={encoded}" if name else encoded


def _request(command: _Command) -> HttpRequest:
    """Return the request of a command. CommandError if it has no URL, several, or one that curl
    would change or refuse.
    """
    if not command.urls:
        raise CommandError("the curl command has no URL")
    if len(command.urls) > 1:
        raise CommandError(
            "the curl command has several URLs: keep one, and quote what is not a URL: "
            f"`{command.urls[1][:100]}`"
        )
    scheme, user, host, path, query = _split(command.urls[0], command.switches)
    # Curl sends none for an empty value.
    headers = {name: value for name, value in command.headers.items() if value}
    if user:
        pair = unquote_to_bytes(user).decode("utf-8", "replace")
        headers.setdefault("authorization", _basic(pair if ":" in pair else f"{pair}:"))
    if command.bearer:
        headers["authorization"] = f"Bearer {command.bearer}"
    if command.cookies:
        headers["cookie"] = "; ".join(command.cookies)
    data = command.data
    if data is not None and "--get" in command.switches:
        query, data = f"{query}&{data}" if query else data, None
    if data is not None:
        if "--head" in command.switches:
            raise CommandError("curl sends no data with -I: remove one of both")
        headers["content-type"] = "application/x-www-form-urlencoded"
    if command.is_json:
        headers |= {"content-type": "application/json", "accept": "application/json"}
    headers = _with_lines(headers, command.lines)
    if any(_CONTROLS.search(each) for pair in headers.items() for each in pair):
        raise CommandError("a header of the curl command contains a control character")
    host = headers.pop("host", "") or host
    if any(character <= " " for character in query):
        raise CommandError("curl sends no blanks in a URL: encode the data of -G")
    method = command.method
    if method is None:
        method = "POST" if data is not None else "HEAD" if "--head" in command.switches else "GET"
    elif not _METHOD.fullmatch(method):
        raise CommandError(f"the method of the curl command is invalid: `{method[:100]}`")
    return HttpRequest(
        method,
        f"{path}?{query}" if query else path,
        headers,
        host=host,
        scheme=scheme,
        body=(data or "").encode("utf-8", "surrogatepass"),
    )


def _with_lines(headers: dict[str, str], lines: list[str]) -> dict[str, str]:
    """Return the headers with those of `-H`, which replace them: `Name:` removes one, `Name;` is
    one without a value, and a line without either is ignored. Repeated ones are joined by commas.
    """
    given: dict[str, str] = {}
    removed: set[str] = set()
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            name, semicolon, rest = line.partition(";")
            if not semicolon or rest.strip():
                continue
            value = ""
        name, value = name.strip().lower(), value.strip()
        if colon and not value:
            removed.add(name)
            continue
        given[name] = f"{given[name]},{value}" if name in given else value
    return {name: each for name, each in headers.items() if name not in removed} | given


def _split(url: str, switches: set[str]) -> tuple[str, str, str, str, str]:
    """Return scheme, user, host with port, path and query of a URL, as curl sends them.
    CommandError for what curl refuses, and for patterns of several URLs.
    """
    if any(character <= " " or character == "\x7f" for character in url):
        raise CommandError("the URL of the pasted request is invalid: it contains blanks")
    head, separator, _ = url.partition("://")
    if not separator or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", head):
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise CommandError(f"the URL of the pasted request is invalid: {error}") from None
    # The brackets of an IPv6 address are not those of a pattern.
    rest = url.partition("://")[2].replace(f"[{parts.hostname}]", "")
    if "--globoff" not in switches and re.search(r"[\[\]{}]", rest):
        raise CommandError("curl reads braces and brackets in a URL as a pattern: encode them")
    if parts.scheme not in _DEFAULT_PORTS:
        raise CommandError("the URL of the curl command must begin with http:// or https://")
    user, _, host = parts.netloc.rpartition("@")
    if port is not None:
        host = host.rpartition(":")[0]
        # curl leaves a default port out of `Host`.
        host = host if port == _DEFAULT_PORTS[parts.scheme] else f"{host}:{port}"
    host = host.removesuffix(":")
    if not host:
        raise CommandError("the URL of the curl command has no host")
    if not host.startswith("[") and _NO_HOST.search(host):
        raise CommandError(f"curl refuses the host of the URL: `{host[:100]}`")
    path = parts.path or "/"
    if "--path-as-is" not in switches:
        path = _remove_dots(path)
    return parts.scheme, user, host, _encode(path), _encode(parts.query)


def _encode(text: str) -> str:
    """Return a part of a URL with the characters outside ASCII encoded, as curl sends it."""
    octets = text.encode("utf-8", "surrogatepass")
    return "".join(chr(each) if each < 128 else f"%{each:02x}" for each in octets)


def _remove_dots(path: str) -> str:
    """Return a path without its `.` and `..` segments (RFC 3986, 5.2.4)."""
    segments: list[str] = []
    parts = path.split("/")[1:]
    for index, each in enumerate(parts):
        is_last = index == len(parts) - 1
        if each == "..":
            if segments:
                segments.pop()
        elif each != ".":
            segments.append(each)
            continue
        if is_last:
            segments.append("")
    return "/" + "/".join(segments)
