"""Numbers and strings: the tokens whose text is read further."""

from __future__ import annotations

import json
import re
from typing import Final

from doorward.rego.numbers import parse_literal
from doorward.rego.syntax.cursor import Cursor
from doorward.rego.syntax.lexer import NUMBER
from doorward.rego.syntax.nodes import Scalar

__all__ = ["LiteralParser"]

_FAR_TOO_BIG: Final = re.compile(r"[eE][+-]?\d{10}")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class LiteralParser(Cursor):
    """The productions of numbers and strings. Each returns None after noting an error."""

    def parse_number(self) -> Scalar | None:
        """number = [ "-" ] [ "." ] digits"""
        start = self.token.start
        prefix = ""
        for mark, wanted in (("-", (NUMBER, ".")), (".", (NUMBER,))):
            if self.kind == mark:
                prefix += mark
                self.scan()
                if self.kind not in wanted:
                    self.illegal("expected number")
                    return None
        text = self.token.text
        if not prefix.endswith(".") and text[0] == "0" and text[1:2] not in ("", ".", "e", "E"):
            self.illegal("expected number without leading zero")
            return None
        try:
            value = parse_literal(prefix + text)
        except ValueError:
            if _FAR_TOO_BIG.search(text):
                self.illegal("invalid float")
            else:
                self.error("number too big")
            return None
        return Scalar(value, self.lexer.span(start, self.token.end))

    def parse_string(self) -> Scalar | None:
        text = self.token.text
        raw = text[0] == "`"
        value = self.plain_text(text[1:-1], "string literal", text, raw=raw)
        return None if value is None else Scalar(value, self.here(), raw=raw)

    def plain_text(self, text: str, what: str, literal: str, *, raw: bool) -> str | None:
        """What the inside of a string says; `what` is wrong with `literal` if it says nothing."""
        if raw or "\\" not in text:
            return text
        try:
            value: str = json.loads(f'"{text}"')
        except ValueError:
            self.error(f"illegal {what}: {literal}")
            return None
        return _LONE_SURROGATE.sub("\ufffd", value) if "\\u" in text else value
