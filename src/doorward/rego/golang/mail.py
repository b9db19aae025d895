"""Mail addresses as Go's `net/mail` reads them: RFC 5322 with names, comments and groups.

Only whether a text is one address is decided here; the time is linear in its length.
"""

from __future__ import annotations

import base64
from typing import Final

from doorward.rego.golang.addresses import parse_ip

__all__ = ["is_address"]

_SPECIALS: Final = frozenset('()<>[]:;@\\,"')
_CHARSETS: Final = frozenset({"utf-8", "iso-8859-1", "us-ascii"})
_HEXADECIMAL: Final = frozenset("0123456789abcdefABCDEF")


class _NoAddressError(Exception):
    """The text is not an address."""


def is_address(text: str) -> bool:
    """Return True if Go reads `text` as exactly one address, such as `a@b.example`, with or without
    a name and comments, or as a group of one address.
    """
    reader = _Reader(text)
    try:
        count = reader.addresses(in_group=False)
        reader.skip_comments()
    except _NoAddressError:
        return False
    return count == 1 and reader.at == len(text)


def _is_visible(character: str) -> bool:
    return "!" <= character <= "~" or character >= "\x80"


def _is_atom(character: str) -> bool:
    return character not in _SPECIALS and _is_visible(character)


class _Reader:
    """Reads one text from left to right; `at` is the index of what is read next."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def next(self) -> str:
        """The next character; "" at the end."""
        return self.text[self.at : self.at + 1]

    def take(self, character: str) -> bool:
        """Move past the next character and return True if it is this one."""
        if self.next != character:
            return False
        self.at += 1
        return True

    def skip_blanks(self) -> None:
        while self.next and self.next in " \t":
            self.at += 1

    def skip_comments(self) -> None:
        """Move past blanks and comments, of which there may be none; _NoAddressError for a comment
        that is not closed.
        """
        self.skip_blanks()
        while self.take("("):
            self.comment()
            self.skip_blanks()

    def comment(self) -> str:
        """Read a comment from behind its `(` to its end, and return its text without escapes;
        comments may be nested. _NoAddressError if it is not closed.
        """
        depth = 1
        parts: list[str] = []
        while depth:
            if not self.next:
                raise _NoAddressError
            if self.next == "\\" and self.at + 1 < len(self.text):
                self.at += 1
            else:
                depth += {"(": 1, ")": -1}.get(self.next, 0)
            if depth:
                parts.append(self.next)
            self.at += 1
        return "".join(parts)

    def addresses(self, *, in_group: bool) -> int:
        """Move past one address, `local@domain` or `name <local@domain>`, or unless `in_group` past
        a group `name: address, …;`; return how many addresses it has, which is 0 for an empty
        group. _NoAddressError if there is none here, or if a comment behind `local@domain` has a
        word in an unknown character set.
        """
        self.skip_blanks()
        if not self.next:
            raise _NoAddressError
        start = self.at
        try:
            self.mailbox()
        except _NoAddressError:
            self.at = start
        else:
            self.skip_blanks()
            if self.take("("):
                for word in self.comment().replace("\t", " ").split(" "):
                    if _has_unknown_charset(word):
                        raise _NoAddressError
            return 1
        if self.next != "<":
            self.phrase()
        self.skip_blanks()
        if not in_group and self.take(":"):
            return self.group()
        if not self.take("<"):
            raise _NoAddressError
        self.mailbox()
        if not self.take(">"):
            raise _NoAddressError
        return 1

    def group(self) -> int:
        """Read the addresses of a group behind its `:`, up to and with its `;` and the comments
        behind it; return how many there are, 0 if none. Groups in groups are not allowed.
        _NoAddressError if one is malformed or the `;` is missing.
        """
        count = 0
        self.skip_blanks()
        if self.take(";"):
            self.skip_comments()
            return count
        while True:
            count += self.addresses(in_group=True)
            self.skip_comments()
            if self.take(";"):
                self.skip_comments()
                return count
            if not self.take(","):
                raise _NoAddressError

    def mailbox(self) -> None:
        """Move past `local@domain`: a quoted text that is not empty or words joined by dots, `@`,
        and words joined by dots or a literal in brackets; blanks may stand before each side.
        _NoAddressError if there is none here, with `at` anywhere behind the start.
        """
        self.skip_blanks()
        if self.next == '"':
            if not self.quoted():
                raise _NoAddressError
        else:
            self.dotted()
        if not self.take("@"):
            raise _NoAddressError
        self.skip_blanks()
        if self.next == "[":
            self.literal()
        else:
            self.dotted()

    def phrase(self) -> None:
        """Move past the words of a display name, atoms and quoted texts with blanks and comments
        between them. _NoAddressError if the first one cannot be read or its encoded form (`=?…?=`)
        has an unknown character set. A later word that cannot be read ends the phrase: a quoted one
        is left unread, any other word is passed.
        """
        count = 0
        while True:
            if count:
                self.skip_comments()
            self.skip_blanks()
            if not self.next:
                return
            start = self.at
            try:
                if self.next == '"':
                    self.quoted()
                else:
                    if _has_unknown_charset(self.atom()):
                        raise _NoAddressError
            except _NoAddressError:
                if not count:
                    raise
                # Go leaves a quoted text where it is, and goes on behind a word.
                if self.text[start] == '"':
                    self.at = start
                return
            count += 1

    def quoted(self) -> str:
        """Read a quoted text, the position being at its quote, and return it without its quotes and
        escapes. _NoAddressError if it is not closed or has an invisible character.
        """
        parts: list[str] = []
        self.at += 1
        while True:
            character = self.next
            if not character:
                raise _NoAddressError
            self.at += 1
            if character == '"':
                return "".join(parts)
            if character == "\\":
                character = self.next
                self.at += 1
            if not character or not (_is_visible(character) or character in " \t"):
                raise _NoAddressError
            parts.append(character)

    def atom(self) -> str:
        """Read the longest word of letters, digits, dots and most signs that begins here, and
        return it; _NoAddressError if there is none.
        """
        start = self.at
        while self.next and _is_atom(self.next):
            self.at += 1
        if self.at == start:
            raise _NoAddressError
        return self.text[start : self.at]

    def dotted(self) -> None:
        """Move past words with dots between them. _NoAddressError if there is none here, or if a
        dot is at an end or behind another dot; `at` is then anywhere behind the start.
        """
        if not all(self.atom().split(".")):
            raise _NoAddressError

    def literal(self) -> None:
        """Move past a domain that is an IP address in brackets, the position being at the `[`.
        _NoAddressError for another text in them, or if they are not closed.
        """
        end = self.text.find("]", self.at)
        content = self.text[self.at + 1 : end] if end >= 0 else ""
        if parse_ip(content) is None:
            raise _NoAddressError
        self.at = end + 1


def _has_unknown_charset(word: str) -> bool:
    """Return True for an encoded word, `=?charset?b?text?=` or with `q`, in a charset that Go
    cannot read, whose text is valid base64 or quoted-printable; False for any other word.
    """
    if len(word) < 8 or not (word.startswith("=?") and word.endswith("?=")):
        return False
    parts = word[2:-2].split("?")
    if len(parts) != 3 or not parts[0] or parts[0].lower() in _CHARSETS:
        return False
    encoding = parts[1].lower()
    if encoding == "b":
        try:
            base64.b64decode(parts[2].replace("\r", "").replace("\n", ""), validate=True)
        except ValueError:
            return False
        return True
    return encoding == "q" and _is_quoted_printable(parts[2])


def _is_quoted_printable(text: str) -> bool:
    """Return True for printable ASCII (with tabs and line breaks) in which two hexadecimal digits
    follow each `=`; also for an empty text.
    """
    others = text.split("=")[1:]
    if not all(" " <= character <= "~" or character in "\r\n\t" for character in text):
        return False
    return all(len(each) >= 2 and set(each[:2]) <= _HEXADECIMAL for each in others)
