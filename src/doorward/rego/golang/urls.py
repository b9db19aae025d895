"""URLs as Go's `net/url` reads and writes them.

Text becomes parts and back. Never used to judge a request's path: for that, no URL parser is
safe. Error texts are Go's, less the parts that could hold a password.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from doorward.base.records import record, replace
from doorward.rego.errors import BuiltinError
from doorward.rego.golang.octets import from_bytes, to_bytes
from doorward.rego.values import CONTROL_ESCAPES

__all__ = [
    "URL",
    "Location",
    "parse",
    "parse_query",
    "path_unescape",
    "query_escape",
    "query_unescape",
    "read_url",
    "resolve",
    "split",
]

MAX_PAIRS: Final = 10_000
"""The most pairs of name and value in one query; more is a BuiltinError."""

_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})?")
_NO_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_USERINFO: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*\Z")
# `<`, `>` and `"` too, as in Go's shouldEscape: a host cannot have them escaped, so it has them
# bare.
_HOST_BYTES: Final = frozenset(b"!$&'()*+,;=:[]<>\"-_.~")
_PATH_SAFE: Final = "$&+,/:;=@-_.~"
_FRAGMENT_SAFE: Final = "$&+,/:;=?@-_.~!()*"
_USER_SAFE: Final = "$&+,;=-_.~"
_HOST_SAFE: Final = "!$&'()*+,;=:[]<>\"-_.~"
_ENCODED_FRAGMENT: Final = re.compile(r"[A-Za-z0-9\-_.~$&+,/:;=?@!'()*\[\]%]*\Z")
_ENCODED_PATH: Final = re.compile(r"[A-Za-z0-9\-_.~$&+,/:;=@!'()*\[\]%]*\Z")
_CREDENTIALS: Final = re.compile(r"//[^/?#]*@")
_UNRESERVED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_ESCAPED: Final = [
    chr(octet) if octet in _UNRESERVED else "+" if octet == 0x20 else f"%{octet:02X}"
    for octet in range(256)
]
_PORT: Final = re.compile(r"(?::[0-9]*)?\Z")


def query_escape(text: str) -> str:
    """Escape `text` as a name or value in a query: a space becomes `+`."""
    octets = to_bytes(text)
    if not octets.rstrip(_UNRESERVED):
        return text
    return "".join([_ESCAPED[octet] for octet in octets])


def query_unescape(text: str) -> str:
    """Decode a name or value of a query, `+` as a space; BuiltinError for a `%` without two
    hexadecimal digits.
    """
    return from_bytes(_percent_decode(to_bytes(text).replace(b"+", b" ")))


def path_unescape(text: str) -> str:
    """Decode the escapes in a part of a path; BuiltinError for a `%` without two hexadecimal
    digits.
    """
    return from_bytes(_percent_decode(to_bytes(text)))


def parse_query(query: str) -> dict[str, list[str]]:
    """Return the names in a query with their values, both decoded, in order. BuiltinError for an
    invalid escape, a semicolon (as in Go), or more than `MAX_PAIRS` pairs.
    """
    values: dict[str, list[str]] = {}
    fault: BuiltinError | None = None
    pairs = query.split("&", MAX_PAIRS)
    if len(pairs) > MAX_PAIRS:
        raise BuiltinError(f"the URL query has more than {MAX_PAIRS} parameters")
    for pair in pairs:
        if ";" in pair:
            # Go goes on after a semicolon and reports it in the end: an invalid escape comes
            # first.
            fault = fault or BuiltinError("invalid semicolon separator in query")
        elif pair:
            name, _, value = pair.partition("=")
            values.setdefault(query_unescape(name), []).append(query_unescape(value))
    if fault:
        raise fault
    return values


def _percent_decode(octets: bytes) -> bytes:
    """Return the bytes with each `%XX` decoded, but not `+`; BuiltinError, in Go's words, for a `%`
    without two hexadecimal digits.
    """
    if b"%" not in octets:
        return octets

    wrong = _NO_ESCAPE.search(octets)
    if wrong is not None:
        octets_of_escape = octets[wrong.start() : wrong.start() + 3]
        raise BuiltinError(f"invalid URL escape {_quote(from_bytes(octets_of_escape))}")
    return unquote_to_bytes(octets)


@record
class URL:
    """A URL with the fields of Go's `url.URL`. `user` is the part of the authority before `@` as it
    is written, None without one; `host` has the port, and an IPv6 address its brackets. `raw_path`
    and `raw_fragment` are "" if the default encoding of the decoded part is what is written.
    """

    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    host: str = ""
    path: str = ""
    written_path: str = ""
    omit_host: bool = False
    force_query: bool = False
    raw_query: str = ""
    fragment: str = ""
    written_fragment: str = ""

    @property
    def raw_path(self) -> str:
        """The path as it was written; "" if that is also how it is escaped here."""
        is_usual = self.written_path in ("*", _encode(self.path, _PATH_SAFE))
        return "" if is_usual else self.written_path

    @property
    def raw_fragment(self) -> str:
        """The fragment as it was written; "" if that is also how it is escaped here."""
        encoded = _encode(self.fragment, _FRAGMENT_SAFE)
        return "" if self.written_fragment == encoded else self.written_fragment

    def __str__(self) -> str:
        """Return the URL as text, as Go does: path and fragment as written if that is a valid
        encoding, otherwise encoded; user and host encoded again; query and `opaque` unchanged.
        """
        text = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            text += self.opaque
        else:
            if (self.scheme or self.host or self.user is not None) and not self.omit_host:
                text += "//" if self.host or self.path or self.user is not None else ""
                text += "" if self.user is None else f"{_encode_user(self.user)}@"
                text += _encode(self.host, _HOST_SAFE)
            path = self._escaped_path()
            if path and path[0] != "/" and self.host:
                text += "/"
            if not text and ":" in path.partition("/")[0]:
                text = "./"  # else the first part of the path would be read as a scheme
            text += path
        if self.force_query or self.raw_query:
            text += f"?{self.raw_query}"
        if self.fragment:
            fragment = self.raw_fragment
            if not _ENCODED_FRAGMENT.match(fragment) or not fragment:
                fragment = _encode(self.fragment, _FRAGMENT_SAFE)
            text += f"#{fragment}"
        return text

    def _escaped_path(self) -> str:
        """Return the path as it was written, if that is a valid escape of it, or else escaped; `*`
        alone stays.
        """
        if self.raw_path and _ENCODED_PATH.match(self.raw_path):
            return self.raw_path
        return "*" if self.path == "*" else _encode(self.path, _PATH_SAFE)


def read_url(url: str) -> URL:
    """Return the parts of `url`, its fragment included, unescaped. BuiltinError, in Go's words and
    without passwords, if it is invalid.
    """
    address, _, fragment = url.partition("#")
    try:
        parts = _parse(address)
    except BuiltinError as error:
        raise BuiltinError(f"parse {_show(address)}: {error}") from None
    if not fragment:
        return parts
    try:
        return replace(parts, fragment=path_unescape(fragment), written_fragment=fragment)
    except BuiltinError as error:
        raise BuiltinError(f"parse {_show(url)}: {error}") from None


def resolve(base: URL, reference: URL) -> URL:
    """Return the URL that `reference` means in a document with the URL `base`, as Go's
    ResolveReference does: its missing parts come from the base, a relative path is joined, and
    `.` and `..` are taken out of the path. The fragment of the base does not count.
    """
    scheme = reference.scheme or base.scheme
    if reference.scheme or reference.host or reference.user is not None:
        return _with_path(replace(reference, scheme=scheme), reference._escaped_path(), "")
    query, force_query = reference.raw_query, reference.force_query
    if not (reference.path or query or force_query):
        query = base.raw_query
    url = replace(reference, scheme=scheme, raw_query=query)
    if not reference.path and base.opaque:
        return replace(url, opaque=base.opaque)
    url = replace(url, host=base.host, user=base.user)
    return _with_path(url, base._escaped_path(), reference._escaped_path())


def _with_path(url: URL, base: str, path: str) -> URL:
    """Return the URL with the path `path` seen from the path `base`, both escaped, and without `.`
    and `..` in it. An empty `path` stands for `base`.
    """
    if not path:
        path = base
    elif path[0] != "/":
        path = base[: base.rfind("/") + 1] + path
    path = _without_dots(path) if path else ""
    return replace(url, path=path_unescape(path), written_path=path)


def _without_dots(path: str) -> str:
    """Return a path without its steps `.` and `..`, which lead no higher than to the root, with one
    slash at its start; a `.` or `..` at the end leaves a slash there.
    """
    steps: list[str] = []
    mark = ""  # what is before the next step; also the first one has a slash after a `.`
    for step in path.split("/"):
        if step == ".":
            mark = "/"
        elif step == "..":
            removed = steps.pop() if steps else ""
            mark = "/" if removed.startswith("/") else ""
        else:
            steps.append(mark + step)
            mark = "/"
    text = "/" + "".join(steps)
    if step in (".", ".."):
        text += "/"
    return text[1:] if text.startswith("//") else text


def parse(url: str) -> dict[str, str]:
    """Return the parts of `url` that are not empty, under OPA's names: `scheme`, `hostname`,
    `port`, `path`, `raw_path`, `raw_query`, `fragment`. BuiltinError, in Go's words and without
    passwords, if it is invalid.
    """
    parts = read_url(url)
    hostname, port = _split_host(parts.host)
    named = {
        "scheme": parts.scheme,
        "raw_query": parts.raw_query,
        "hostname": hostname,
        "port": port,
        "path": parts.path,
        "raw_path": parts.written_path,
        "fragment": parts.fragment,
    }
    return {name: part for name, part in named.items() if part}


def _encode(text: str, safe: str) -> str:
    """Return a text with all characters escaped but letters, digits and those in `safe`."""
    return quote_from_bytes(to_bytes(text), safe=safe)


def _encode_user(user: str) -> str:
    """Return a user, with a password if there is one, in the default encoding."""
    parts = [_encode(path_unescape(part), _USER_SAFE) for part in user.split(":", 1)]
    return ":".join(parts)


@record
class Location:
    """The parts of a URL that a request needs: the host with port, and the path and query as they
    are sent.
    """

    host: str
    escaped_path: str
    raw_query: str


def split(url: str) -> Location:
    """Return the host (with the port, if there is one), path and query of `url`, as they are sent
    in a request, each "" if it has none; BuiltinError if it is invalid.
    """
    parts = parse(url)
    host = parts.get("hostname", "")
    host = f"[{host}]" if ":" in host else host
    port = parts.get("port")
    path = parts.get("raw_path", "")
    # As Go's EscapedPath: sent as it was written where that is a valid encoding.
    if not _ENCODED_PATH.match(path):
        path = _encode(parts.get("path", ""), _PATH_SAFE)
    return Location(f"{host}:{port}" if port else host, path, parts.get("raw_query", ""))


def _show(url: str) -> str:
    """Return `url` in quotes for an error: `//***@` in place of user and password, which OPA
    shows.
    """
    return _quote(_CREDENTIALS.sub("//***@", url, count=1))


def _quote(text: str) -> str:
    """Return a text in double quotes as Go's errors show it, control characters escaped."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    quoted = _CONTROL.sub(lambda m: CONTROL_ESCAPES.get(m[0], f"\\x{ord(m[0]):02x}"), quoted)
    return f'"{quoted}"'


def _parse(address: str) -> URL:
    """Split a URL without its fragment, which the caller has cut off, into its parts; the scheme is
    put in lower case, the path is unescaped. An opaque one (`mailto:a`) has no host and no path.
    Not normalised or checked further: BuiltinError, in Go's words, only for control characters, an
    invalid scheme, authority or escape, and a colon in the first segment of a relative path.
    """
    if _CONTROL.search(address):
        raise BuiltinError("net/url: invalid control character in URL")
    if address == "*":
        return URL(path="*", written_path="*")
    scheme, rest = _split_scheme(address)
    rest, mark, query = rest.partition("?")
    parts = URL(scheme=scheme.lower(), raw_query=query, force_query=bool(mark) and not query)
    if not rest.startswith("/"):
        if scheme:
            return replace(parts, opaque=rest)
        segment = rest.partition("/")[0]
        if ":" in segment:
            raise BuiltinError("first path segment in URL cannot contain colon")
    user, host = None, ""
    # `///a` without a scheme is a path; `file:///a` has an empty host.
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _decode_authority(authority, scheme.lower())
    elif scheme and rest.startswith("/"):
        parts = replace(parts, omit_host=True)
    return replace(parts, user=user, host=host, path=path_unescape(rest), written_path=rest)


def _split_scheme(address: str) -> tuple[str, str]:
    """Return the scheme of a URL as it is written and the rest after its colon; "" and the whole if
    it does not begin with a scheme. BuiltinError if it begins with a colon.
    """
    for position, character in enumerate(address):
        if character.isascii() and character.isalpha():
            continue
        if character == ":":
            if position == 0:
                raise BuiltinError("missing protocol scheme")
            return address[:position], address[position + 1 :]
        if position == 0 or character not in "0123456789+-.":
            break
    return "", address


def _decode_authority(authority: str, scheme: str) -> tuple[str | None, str]:
    """Return the user and password of an authority, `user:password@host:port`, as they are written
    (None without `@`), and host and port with escapes decoded; BuiltinError if a part is invalid.
    """
    user, at, host = authority.rpartition("@")
    host = _decode_host(host, scheme)
    if at:
        if not _USERINFO.match(user):
            raise BuiltinError("net/url: invalid userinfo")
        path_unescape(user)
    return (user if at else None), host


def _decode_host(host: str, scheme: str) -> str:
    """Return host and port with escapes decoded, an IPv6 address still in its brackets;
    BuiltinError if they are invalid. For HTTP the first colon is that of the port, for other
    schemes the last one.
    """
    if "[" in host:
        if not host.startswith("["):
            raise BuiltinError("invalid IP-literal")
        end = host.rfind("]")
        if end < 0:
            raise BuiltinError("missing ']' in host")
        _check_port(host[end + 1 :])
        literal, zone, name = host[:end].partition("%25")
        if zone:
            return _host_text(literal) + _zone_text("%25" + name) + _host_text(host[end:])
    elif ":" in host:
        find = host.find if scheme in ("http", "https") else host.rfind
        _check_port(host[find(":") :])
    return _host_text(host)


def _check_port(port: str) -> None:
    """Raise BuiltinError unless this is empty, or a colon with digits or nothing behind it."""
    if not _PORT.match(port):
        raise BuiltinError(f"invalid port {_quote(port)} after host")


def _host_text(host: str) -> str:
    """Decode a host name. BuiltinError for an escape of an ASCII character other than `%25`, or for
    an invalid character.
    """
    octets = to_bytes(host)
    for match in _ESCAPE.finditer(octets):
        # A host name's escapes may only stand for bytes outside ASCII.
        if match[1] is not None and (int(match[1], 16) < 0x80 and match[0] != b"%25"):
            raise BuiltinError(f"invalid URL escape {_quote(match[0].decode())}")
    _check_host_bytes(octets)
    return from_bytes(_percent_decode(octets))


def _zone_text(zone: str) -> str:
    """Decode the escapes in the zone of an IPv6 address, given from its `%25`; BuiltinError, in
    Go's words, for an escape that a zone must not have or an invalid character.
    """
    octets = to_bytes(zone)
    for match in _ESCAPE.finditer(octets):
        if match[1] is not None:
            code = int(match[1], 16)
            plain = chr(code).isalnum() or code in _HOST_BYTES
            if match[0] != b"%25" and code != 0x20 and code < 0x80 and not plain:
                raise BuiltinError(f"invalid URL escape {_quote(match[0].decode())}")
    _check_host_bytes(octets)
    return from_bytes(_percent_decode(octets))


def _check_host_bytes(octets: bytes) -> None:
    """Raise BuiltinError, in Go's words, for the first byte that is not allowed in a host name;
    bytes above ASCII and `%` are.
    """
    for code in octets.replace(b"%", b""):
        if code < 0x80 and not (chr(code).isalnum() or code in _HOST_BYTES):
            raise BuiltinError(f"invalid character {_quote(chr(code))} in host name")


def _split_host(host: str) -> tuple[str, str]:
    """Return the host without the brackets of an IPv6 address, and its port, "" if there is none
    (or nothing behind the colon).
    """
    colon = host.rfind(":")
    port = ""
    if colon >= 0 and _PORT.match(host[colon:]):
        host, port = host[:colon], host[colon + 1 :]
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host, port
