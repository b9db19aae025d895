"""Random YAML texts and values, read and written by Doorward and by OPA 1.20.2.

    python fuzz/yaml_texts.py [--seconds 60 | --calls N] [--seed 1]

Block and flow collections inside each other, at other indentations, with anchors, aliases, merge
keys, tags, directives, comments, several documents; scalars of every style that look like numbers,
booleans, dates of YAML 1.1 and 1.2; tabs, carriage returns, other line ends, and characters that
YAML has no room for; some texts with characters changed. Values for `yaml.marshal` have the same
scalars as strings, and numbers of every form. Prints every difference between the answers; the exit
code is 1 if there was one.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz.calls import JsonText, campaign
from fuzz.pools import Choices

__all__ = ["call_of"]

WORDS: Final = (
    "a", "b", "key", "x y", "a b  c", "é", "日本", "😀", "a:b", "a#b", "http://x:80/", "a,b", "-a",
    "--", "?a", ":a", "a-b", "a'b", 'a"b', "a\\b", "_", "a_b", "-", "?", ":", "a:", ":a:", "a: b",
    "a #b", "#", "# c", "- a", "? a", "&", "*", "!", "%", "@", "`", "|", ">", "=", "<<", "[", "]",
    "{", "}", "[]", "{}", "[a]", "{a: b}", ",", "a,", "%a", "@a", "`a", "&a b", "*a", "!a", "!!a",
    "\ufeff", "a\ufeffb", "\u2028", "a\u2029b", "\x85", "a\x85b", "\xa0", "\x7f", "\x00", "\x1b",
    "\x07", "\ufffd", "\ufffe", "\uffff", "\ud7ff", "\ue000", "\U0010ffff", "\t", "a\tb", "a\t",
    "\ta", " a", "a ", "  ", " ", "", "a\nb", "a\n", "\na", "\n", "a\n\nb\n", " a\n b", "a\n  b\nc",
    "a\r\nb", "a\rb", "---", "...", "--- a", "a\n---\nb", "a\n...\nb", "word " * 25, "w" * 90,
    "a\n\tb", "a \nb", "a\n \nb", "\n\n", "\n a", " \n", "null ", "it's " * 20, "a  b " * 20,
    "x: " * 30, '"q" \\ ' * 20, "\x07 é  " * 30, "a" * 127, "a" * 129, "é" * 128,
    "key: v # c", "\u200b", "e\u0301", "ß", "ſ", "İ", "٣", "²",
)  # fmt: skip
LITERALS: Final = (
    "", "~", "null", "Null", "NULL", "nULL", "true", "True", "TRUE", "tRUE", "false", "False",
    "FALSE", "yes", "Yes", "YES", "no", "No", "NO", "y", "Y", "n", "N", "on", "On", "ON", "off",
    "Off", "OFF", "oN", "t", "f", ".nan", ".NaN", ".NAN", ".Nan", "nan", "NaN", ".inf", ".Inf",
    ".INF", "-.inf", "-.Inf", "-.INF", "+.inf", "+.Inf", "+.INF", "inf", "-inf", "Infinity", "+inf",
)  # fmt: skip
NUMBERS: Final = (
    "0", "1", "-1", "+1", "-0", "+0", "00", "01", "07", "08", "09", "010", "-010", "+010", "0o7",
    "0O7", "-0o7", "0o8", "0o", "0x1f", "0X1F", "-0x1", "+0x1", "0x", "0xg", "0b1", "0B1", "-0b1",
    "+0b1", "0b2", "0b", "1_000", "_1", "1_", "1__0", "0_1", "0x_1", "0x1_f", "0b_1", "-_1", "1_.5",
    "1.", ".5", "-.5", "+.5", "1.5", "-1.5", "+1.5", "1.5.5", "1.0", "1.50", "01.5", "1e3", "1E3",
    "1e+3", "1e-3", "1.e3", ".5e3", "1e", "e3", "1e3.5", "1_0e1", "1e1_0", "1.5e300", "1e308",
    "1e309", "-1e309", "1e999", "1e-999", "5e-324", "1e-324", "0x1p3", "0x1.8p1", "1p3", ".", "-",
    "+", "-.", "..", "+-1", "--1", "1-", "1+", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616",
    "+9223372036854775808", "+18446744073709551615",
    "123456789012345678901234567890", "0xffffffffffffffff", "0x10000000000000000",
    "-0x8000000000000000", "-0x8000000000000001", "0b" + "1" * 64, "0b" + "1" * 65,
    "-0b1" + "0" * 63, "0777777777777777777777", "01777777777777777777777",
    "02000000000000000000000", "1:30", "12:30:45", "1:60", "1:30.5", "-1:30", "190:20:30",
    "190:20:30.15", "1,000", "1 000", "1e6", "100000", "1000000", "1e5", "123456789.123", "0.1",
    "0.0001", "0.00001", "1e20", "1e21", "1e22", "1e-6", "1e-7", "123456", "1234567", "1.234567",
    "0.30000000000000004", "4.35", "2.5e-8", "1d", "1f", "1L", "0.0", "-0.0", "+.1e5", "1e05",
    "１", "٣", "0x1F_FF", "1__", "0__", "1_2_3.4_5", "16777217", "3.4028235e38", "3.5e38", "1e39",
    "1e-46", "1.17549435e-38", "1" * 40 + ".5", "0" * 30, "0." + "0" * 30 + "1",
)  # fmt: skip
DATES: Final = (
    "2001-01-01", "2001-1-1", "2001-01-01T10:20:30Z", "2001-01-01t10:20:30.5Z",
    "2001-01-01 10:20:30", "2001-01-01 10:20:30 +1", "2001-01-01T10:20:30+01:00", "2001-13-01",
    "2001-02-30", "0000-00-00", "2001-01-01T", "2001-01-01T1:2:3Z", "20010101", "2001-01", "1-1-1",
    "2001-01-01 a", "2001-01-01T10:20:30.123456789123Z", "2001-01-01  10:20:30", "2001-01-1x",
    "10:20", "10:20:30", "2001-01-01\t10:20:30Z", "99999-01-01",
)  # fmt: skip
TAGS: Final = (
    "!!str", "!!merge", "!!int", "!!float", "!!bool", "!!null", "!!binary", "!!timestamp", "!!map",
    "!!seq",
    "!!set", "!!omap", "!!merge", "!", "!a", "!!a", "!<tag:yaml.org,2002:str>", "!<!a>", "!<a>",
    "!e!a", "!!", "!a!b", "!%41", "!!s%74r", "!!str,", "!<tag:yaml.org,2002:int>", "!<>", "!<a",
    "!é", "!a[", "!a,", "!!value", "!!pairs",
)  # fmt: skip
ANCHORS: Final = ("a", "b", "c", "a1", "a-b", "a_b", "é", "a.b", "a:", "1", "", "a]", "A")
ESCAPES: Final = (
    r"\n", r"\t", r"\0", r"\a", r"\b", r"\e", r"\v", r"\f", r"\r", r"\ ", r"\"", r"\/", r"\\",
    r"\N", r"\_", r"\L", r"\P", r"\x41", r"\xff", r"\x0", r"\u0041", r"\u00e9", r"\ud83d\ude00",
    r"\ud83d", r"\U0001F600", r"\U00110000", r"\UFFFFFFFF", r"\u12", r"\q", r"\'", r"\#", "\\\n  ",
    "\\\n", "\\\t", r"\ufeff", r"\uffff", r"\x00", r"\ ", "\\\r\n ", r"\1", r"\X41", r"\x4G",
)  # fmt: skip
DIRECTIVES: Final = (
    "%YAML 1.1", "%YAML 1.2", "%YAML 1.0", "%YAML 2.0", "%YAML 1.10", "%YAML 1", "%YAML",
    "%YAML  1.1 # c", "%YAML 1.1 x", "%TAG ! tag:x,2000:", "%TAG !! tag:yaml.org,2002:",
    "%TAG !e! tag:yaml.org,2002:", "%TAG !e! !a", "%TAG !e", "%FOO a", "%", "%YAML 1.1\n%YAML 1.1",
    "%TAG !! !\n%TAG !! !", "%TAG !! a", "%YAML 1.123456789012", "%foo", "%TAG !e! ", "\t%YAML 1.1",
)  # fmt: skip
BREAKS: Final = ("\n",) * 20 + ("\r\n", "\r", "\n\n", "\n \n", "\n\t\n", "\n# c\n", "\n  # c\n")
INSERTED: Final = (
    " ", "\t", "\n", "\r", ":", "-", "?", ",", "[", "]", "{", "}", "#", "&", "*", "!", "|", ">",
    "'", '"', "%", "@", "`", "\\", "\x00", "\x85", "\u2028", "\ufeff", "\x07", "é", "- ", ": ",
    " #", "---", "...", "\n---\n", "\n...\n", "<<: ", "&a ", "*a ", "!!str ", "0", "~", "\ufffe",
    "\n  ", "\n ", "  ", "\n\t", "😀", "=", "\x7f", "\xa0",
)  # fmt: skip


class _Writer(Choices):
    """Writes one call."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.anchors: list[str] = []
        self.is_odd = self.chance() < 0.3

    def call(self) -> tuple[str, list[Any]]:
        """The name of a built-in and its operands."""
        chosen = self.chance()
        if chosen < 0.3:
            return "yaml.marshal", [self._operand()]
        text = self._stream()
        if chosen < 0.4:
            if self.chance() < 0.1:
                return "yaml.is_valid", [self.pick([None, 1, True, [], {}, ["a: 1"]])]
            return "yaml.is_valid", [text]
        return "yaml.unmarshal", [text]

    def odd(self, chance: float) -> bool:
        """Return True by `chance`, and only in a part of the texts, so that others are valid."""
        return self.is_odd and self.chance() < chance

    # Texts

    def _stream(self) -> str:
        text = self._document() if self.chance() < 0.9 else self._long()
        if self.odd(0.3):
            text += self.pick(["---\n", "...\n", "...\n---\n", "--- ", "...", "---", "... # c\n"])
            text += self.pick(["", self._document(), "%YAML 1.1\n---\na\n", "]"])
        for _ in range(self.pick([0, 0, 1, 1, 2]) if self.is_odd else 0):
            text = self._changed(text)
        if self.odd(0.05):
            text = self.pick(
                ["", " ", "\n", "#", "# c", "\ufeff" + text, text + "\ufeff", "\t" + text,
                 " " + text,
                 text.replace("\n", "\r\n"), text.replace("\n", "\r"), text.replace("  ", "\t"),
                 text.replace("\n", "\n "), text.replace(" ", "  "), text + "\x00", text[:-1]]
            )  # fmt: skip
        if len(text) > 300:
            # OPA's library reads 512 bytes at a time, and refuses no character behind the first
            # document that it has not read.
            text = re.sub("[\0-\x08\x0b-\x1f\x7f\ufffe\uffff]", "", text)
        return text

    def _long(self) -> str:
        """A long text: JSON, a deep nest, a long key, or aliases that repeat each other."""
        chosen = self.chance()
        if chosen < 0.4:
            indent = self.pick([None, 1, 2, "\t"])
            return json.dumps(self._json(0), indent=indent, ensure_ascii=self.chance() < 0.5)
        depth = self.pick([5, 20, 60])
        if chosen < 0.6:
            opening, closing = self.pick([("[", "]"), ("{a: ", "}"), ("[{a: ", "}]"), ("- ", "")])
            return opening * depth + self._content().replace("\n", " ") + closing * depth
        if chosen < 0.8:
            key = self.pick(["a", "é", "a ", "\\n"]) * self.pick([250, 511, 512, 1022, 1023, 1024])
            quote = self.pick(["", '"', "'"])
            return self.pick(["", "? ", "- ", "{"]) + f"{quote}{key}{quote}: b"
        count, width = self.pick([2, 3, 4, 12]), self.pick([2, 9, 10, 11, 30])
        lines = ["a0: &a0 [" + ", ".join(["x"] * width) + "]"]
        for n in range(1, count):
            lines.append(f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * width) + "]")
        return "\n".join(lines)

    def _changed(self, text: str) -> str:
        """The text with a part inserted, removed, or moved."""
        at = self.pick(range(len(text) + 1))
        length = self.pick([1, 1, 1, 2, 3, 8])
        chosen = self.chance()
        if chosen < 0.5:
            return text[:at] + self.pick(INSERTED) + text[at:]
        if chosen < 0.75:
            return text[:at] + text[at + length :]
        if chosen < 0.9:
            return text[:at] + self.pick(INSERTED) + text[at + 1 :]
        return text[:at] + text[self.pick(range(len(text) + 1)) :]

    def _document(self) -> str:
        start = ""
        if self.chance() < 0.05:
            start = self.pick(DIRECTIVES if self.is_odd else DIRECTIVES[:1]) + "\n---"
            start += self.pick([" ", "\n", "\n", " # c\n"])
        elif self.chance() < 0.15:
            start = self.pick(
                ["---\n", "--- ", "# c\n", "---\t", "\n\n", "--- # c\n", "---\n---\n"]
            )
        if start.endswith((" ", "\t")):
            return start + self._value(2, 0) + "\n"
        return start + self._block(self.pick([0, 0, 0, 0, 0, 2, 1]), 0) + "\n"

    def _block(self, indent: int, depth: int) -> str:
        """A collection or scalar whose lines begin at `indent`, the first one included."""
        pad = " " * indent
        chosen = self.chance()
        if depth > 4 or chosen < 0.12:
            return pad + self._scalar(indent, in_flow=False)
        if chosen < 0.25:
            return pad + self._properties() + self._flow(depth + 1)
        count = self.pick([1, 1, 2, 2, 3, 4]) if depth < 2 else self.pick([1, 1, 2])
        if chosen < 0.5:
            lines = [f"{pad}-{self._gap()}{self._value(indent, depth, in_list=True)}"]
            lines += [
                f"{self._pad(pad)}-{self._gap()}{self._value(indent, depth, in_list=True)}"
                for _ in range(count - 1)
            ]
        else:
            lines = [self._pair(pad, indent, depth)]
            lines += [self._pair(self._pad(pad), indent, depth) for _ in range(count - 1)]
        return self._joined(lines)

    def _joined(self, lines: list[str]) -> str:
        text = lines[0]
        for line in lines[1:]:
            text += self.pick(BREAKS) + line
        return text

    def _pad(self, pad: str) -> str:
        return self.pick([pad + " ", pad[:-1], "\t", pad + "\t"]) if self.odd(0.05) else pad

    def _gap(self) -> str:
        return self.pick(["  ", "\t", "", " \t", "   "]) if self.odd(0.1) else " "

    def _pair(self, pad: str, indent: int, depth: int) -> str:
        if self.chance() < 0.07:
            return f"{pad}<<: {self._merged()}"
        if self.chance() < 0.06:
            key = self._value(indent, depth + 2)
            if self.chance() < 0.1:
                return f"{pad}?{self._gap()}{key}"
            return f"{pad}?{self._gap()}{key}\n{self._pad(pad)}:{self._gap()}" + self._value(
                indent, depth
            )
        space = self.pick([" ", "", "\t"]) if self.odd(0.1) else ""
        return f"{pad}{self._key()}{space}:{self._gap()}{self._value(indent, depth)}"

    def _key(self) -> str:
        chosen = self.chance()
        if chosen < 0.6:
            return self.pick(["a", "b", "c", "d", "e", "key", "x y", "é", "k1", "k2", "k3", "k10"])
        if chosen < 0.75:
            return self._properties() + self.pick(
                [*LITERALS, *NUMBERS, *DATES]
                if self.is_odd
                else [*LITERALS[6:45], *NUMBERS, *DATES]
            )
        if chosen < 0.78 and self.anchors:
            return f"*{self.pick(self.anchors)} "
        if chosen < 0.8 and self.is_odd:
            return self.pick(
                ["[a]", "{a: b}", "a" * 1030, f'"{"a" * 1030}"', "<<", "'<<'", "=", "? a"]
            )
        return self._properties() + self._scalar(0, in_flow=True)

    def _merged(self) -> str:
        aliases = [f"*{name}" for name in self.anchors] or ["{a: 1}"]
        chosen = self.chance()
        if chosen < 0.5:
            return self.pick(aliases)
        if chosen < 0.7:
            return f"[{self.pick(aliases)}, {self.pick([*aliases, '{a: 2, b: 3}'])}]"
        if chosen < 0.9:
            return self.pick(
                ["{a: 1, b: 2}", "{}", "[]", "[{a: 1}, {a: 2, c: 3}]", "{<<: {a: 1}, b: 2}"]
            )
        if not self.is_odd:
            return "{c: 1}"
        return self.pick(
            ["1", "", "~", "a", "[1]", "[[{a: 1}]]", "[{a: 1}, 1]", "!!map {a: 1}", "{1: 2}"]
        )

    def _properties(self) -> str:
        """A tag, an anchor, both in any order, or neither."""
        parts = []
        if self.chance() < (0.1 if self.is_odd else 0.04):
            parts.append(self.pick(TAGS if self.is_odd else (*TAGS[:1], "!", "!a", "!!a", "!<a>")))
        if self.chance() < 0.1:
            name = self.pick(ANCHORS if self.is_odd else ANCHORS[:6])
            self.anchors.append(name)
            parts.append(f"&{name}")
        if self.chance() < 0.5:
            parts.reverse()
        return "".join([part + self.pick([" "] * 20 + ["  ", "\t"]) for part in parts])

    def _value(self, indent: int, depth: int, *, in_list: bool = False) -> str:
        """A value after an indicator, on the same line or below it."""
        properties = self._properties()
        chosen = self.chance()
        comment = self.pick(["", "", "", "", "", "", " # c", "  #", "#", "\t# c"])
        if self.anchors and chosen < 0.08:
            return f"*{self.pick(self.anchors)}{comment}"
        if chosen < 0.1 and self.is_odd:
            return f"*{self.pick(ANCHORS)}{comment}"
        if chosen < 0.55 or depth > 4:
            return f"{properties}{self._scalar(indent, in_flow=False)}{comment}"
        if chosen < 0.7:
            return f"{properties}{self._flow(depth + 1)}{comment}"
        deeper = indent + self.pick([2, 2, 2, 2, 1, 3, 4])
        if self.chance() < 0.1:
            deeper = indent
        if self.odd(0.05):
            deeper = max(indent - 1, 0)
        if in_list and self.chance() < 0.4 and not properties:
            return self._block(indent + 2, depth + 1).lstrip(" ") + comment
        return f"{properties}{comment}\n{self._block(deeper, depth + 1)}"

    # Flow

    def _flow(self, depth: int) -> str:
        count = self.pick([0, 1, 1, 2, 2, 3])
        is_list = self.chance() < 0.5
        items = [
            self._flow_item(depth) if is_list else self._flow_pair(depth) for _ in range(count)
        ]
        separator = self.pick(
            [", "] * 12 + [",", " , ", ",\n  ", "\n  , ", ",\t", ", # c\n  ", ",\n"]
        )
        if self.odd(0.05):
            separator = self.pick([" ", ",,", ";", ", ,"])
        inner = separator.join(items) + (
            self.pick([",", " ", ", ", "\n  "]) if self.chance() < 0.1 else ""
        )
        return f"[{inner}]" if is_list else f"{{{inner}}}"

    def _flow_item(self, depth: int) -> str:
        chosen = self.chance()
        if self.anchors and chosen < 0.07:
            return f"*{self.pick(self.anchors)}"
        if depth > 4 or chosen < 0.65:
            return self._properties() + self._scalar(0, in_flow=True)
        if chosen < 0.75:
            return self._flow_pair(depth)
        return self._properties() + self._flow(depth + 1)

    def _flow_pair(self, depth: int) -> str:
        if self.chance() < 0.07:
            return f"<<: {self._merged()}"
        key = self._key()
        chosen = self.chance()
        if chosen < 0.8:
            return f"{key}: {self._flow_item(depth + 1)}"
        if chosen < 0.9 and self.is_odd:
            return self.pick(
                [key, f"{key}:", f"? {key}", f"? {key} : a", f"{key}:a", f'"{key}":1', "'a':[]",
                 f": {key}", "?", ":", f"? [{key}] : b", f"{key} :\n  b", f'"a":{key}', "[a]: b",
                 "a:[b]", "a:{b: c}", "[a]:b", "{a: b}:c", "? a\n  : b", "*a : b", "*a: b"]
            )  # fmt: skip
        return f"{key}:{self._gap()}{self._flow_item(depth + 1)}"

    # Scalars

    def _content(self) -> str:
        chosen = self.chance()
        if chosen < 0.3:
            return self.pick(["a", "b", "x y", "value", "é", "a-b", "v1"])
        if chosen < 0.5:
            return self.pick(NUMBERS)
        if chosen < 0.62:
            return self.pick(LITERALS)
        if chosen < 0.7:
            return self.pick(DATES)
        if chosen < 0.75:
            return self.pick(WORDS) + self.pick(WORDS)
        return self.pick(WORDS)

    def _scalar(self, indent: int, *, in_flow: bool) -> str:
        content = self._content()
        chosen = self.chance()
        if chosen < 0.55:
            return self._plain(content, in_flow=in_flow)
        if chosen < 0.65:
            text = content.replace("'", "''")
            return f"'{text if self.is_odd else _above_controls(text)}'"
        if chosen < 0.8 or in_flow:
            text = content.replace("\\", "\\\\").replace('"', '\\"')
            if not self.is_odd:
                text = _above_controls(text)
            for _ in range(self.pick([0, 0, 0, 1, 2])):
                at = self.pick(range(len(text) + 1))
                if text[:at].endswith("\\"):
                    continue
                escape = self.pick(ESCAPES if self.is_odd else ESCAPES[:22])
                text = text[:at] + escape + text[at:]
            return f'"{text}"'
        return self._block_scalar(content, indent)

    def _plain(self, content: str, *, in_flow: bool) -> str:
        if self.is_odd:
            return content
        if self.chance() < 0.03:
            return f"a\n{' ' * 6}b" if self.chance() < 0.5 else f"a\n\n{' ' * 6}b\n{' ' * 6}c"
        if content in LITERALS or content in NUMBERS or content in DATES:
            return content
        refused = "\n#:-?&*!|>'\"%@`{}[],\\=<.\t" if in_flow else "\n#:-?&*!|>'\"%@`{}[],\t"
        return "".join([c for c in _above_controls(content) if c not in refused]) or "a"

    def _block_scalar(self, content: str, indent: int) -> str:
        """A literal or folded scalar below its header."""
        header = self.pick("|>") + self.pick(["", "", "", "-", "+"])
        width = self.pick([1, 2, 2, 4])
        if self.chance() < 0.15:
            number = self.pick(["0", "9", "10", "1", "3"]) if self.odd(0.3) else str(width)
            header = header[0] + self.pick([number + header[1:], header[1:] + number])
        if self.odd(0.1):
            header += self.pick(["#", " #", " # c", "a", "+-", "\t", " x", "--", "-+1"])
        pad = " " * (indent + width)
        text = content if self.is_odd else _above_controls(content, "\t\n")
        count = self.pick([0, 1, 1, 1, 2, 3, 4])
        lines = text.split("\n") + [
            self.pick(["", "b", "  c", "d ", "\te", "# f", "g: h", "- i", "   ", "'"])
            for _ in range(count)
        ]
        body = [self._pad(pad) + line if line or self.chance() < 0.2 else "" for line in lines]
        return f"{header}\n" + "\n".join(body) + "\n" * self.pick([0, 0, 0, 1, 2])

    # Values

    def _operand(self) -> Any:
        """A value for `yaml.marshal`, or its JSON with numbers as they are written."""
        value = self._json(0)
        if self.chance() < 0.03:
            for _ in range(self.pick([5, 30, 45, 60])):
                value = self.pick([[value], {"a": value}, {"k": 1, "x y": value}, [[], value]])
        if self.chance() < 0.3:
            return value
        text = json.dumps(value, ensure_ascii=self.chance() < 0.5)
        for name in ("1000000", "7.5", "-3"):
            number = self.pick(JSON_NUMBERS)
            text = re.sub(rf"(?<=[ \[]){name}(?![0-9])", number, text)
        return JsonText(text)

    def _json(self, depth: int) -> Any:
        chosen = self.chance()
        if chosen < 0.25 + depth * 0.15:
            return self._json_scalar()
        count = self.pick([0, 1, 1, 2, 3])
        if chosen < 0.6:
            return [self._json(depth + 1) for _ in range(count)]
        keys = [self._json_key() for _ in range(count + self.pick([0, 0, 2]))]
        return {key: self._json(depth + 1) for key in keys}

    def _json_key(self) -> str:
        chosen = self.chance()
        if chosen < 0.3:
            return self.pick(
                ["a", "b", "a1", "a10", "a9", "A", "_", "a.b", "1", "10", "9", "é", "a0", "a01"]
            )
        if chosen < 0.45:
            return "".join([self.pick("ab01.9-_ é٣") for _ in range(self.pick(range(6)))])
        return self._content()

    def _json_scalar(self) -> Any:
        chosen = self.chance()
        if chosen < 0.6:
            return self._content()
        if chosen < 0.7:
            lines = [self._content() for _ in range(self.pick([2, 3]))]
            return self.pick(["\n", " ", "", ": ", " #"]).join(lines)
        if chosen < 0.9:
            return self.pick(
                [1000000, 7.5, -3, 0, 1, 1.0, 1e6, 1e-7, 1e21, 2**63, 2**64, -(2**63) - 1, 10**30,
                 1.5e300, 5e-324, 0.1, 123456.5, 1234567.5, 100000.0, 1e20]
            )  # fmt: skip
        return self.pick([None, True, False])


JSON_NUMBERS: Final = (
    "1.0", "1.50", "1e3", "1E3", "1e+3", "1E-7", "-0", "-0.0", "0.0", "1e400", "-1e400", "1e-400",
    "100000", "1000000", "1000000.0", "1e5", "1e6", "123456.0", "1e20", "1e21", "1.5e1",
    "18446744073709551615", "18446744073709551616", "-9223372036854775809", "0.000001", "0e0",
    "1" * 40, "0.1234567890123456789", "1e0", "3.0e2", "9007199254740993", "0.00001", "1e18",
    "9223372036854775808", "9223372036854775807.0", "12345678.9", "1e22", "1e23", "2e5", "1.0e1000",
)  # fmt: skip


def _above_controls(text: str, kept: str = "\t") -> str:
    """The text without characters that end or break most documents."""
    return "".join(
        [
            c
            for c in text
            if c in kept or " " <= c <= "~" or (c >= "\xa0" and c not in "\ufeff\ufffe\uffff")
        ]
    )


def call_of(seed: int | str) -> tuple[str, list[Any]]:
    """The call of a seed: the name of a built-in and its operands."""
    return _Writer(Random(seed)).call()


if __name__ == "__main__":
    sys.exit(campaign(__doc__, call_of))
