"""PyYAML's parser, corrected to read as the library of OPA does, a port of libyaml to Go.

The rules of libyaml for tabs, directives, tags, block scalars, byte order marks and escapes, and
for keys without `?`, where PyYAML's time grows with the square of the open brackets.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, NoReturn

__all__ = ["loader_class"]

_BREAKS: Final = "\r\n\x85\u2028\u2029"
_BLANKS: Final = f" \t{_BREAKS}"
_WORDS: Final = {
    in_flow: re.compile(rf"(?:[^\0{_BLANKS}:{ends}]|:(?![\0{_BLANKS}]))*")
    for in_flow, ends in ((False, ""), (True, r",\[\]{}?"))
}
"""Matches the characters of a plain scalar up to the next blank, outside and inside of brackets."""
_LINE: Final = re.compile(rf"[^\0{_BREAKS}]*")
_WHITE: Final = re.compile(r"[ \t]*")
_NAME: Final = re.compile(r"[0-9A-Za-z_-]*")
_HANDLE: Final = re.compile(r"![0-9A-Za-z_-]*!?")
_NUMBER: Final = re.compile(r"[0-9]*")
_URI: Final = re.compile(r"[0-9A-Za-z;/?:@&=+$,_.!~*'()\[\]%-]")
_HEADER: Final = re.compile(r"([+-]?)([0-9]?)([+-]?)[ \t]*(?:#[^\0\r\n\x85\u2028\u2029]*)?")
"""Matches what may follow the indicator of a block scalar on its line."""


@lru_cache(maxsize=1)
def loader_class() -> Any:
    """Import PyYAML and return a subclass of its pure-Python reader, scanner and parser that scans
    as libyaml does (tabs, directives, tags, block scalars, byte order marks, escapes, simple keys)
    and raises ScannerError as it does. The result is cached: each call returns the same class.
    """
    import yaml
    import yaml.parser
    import yaml.reader
    import yaml.scanner

    class Loader(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):
        """PyYAML's loader with libyaml's rules."""

        def __init__(self, text: str) -> None:
            self.levels: dict[int, int] = {}
            """The levels of brackets of possible keys, by the numbers of their first tokens."""
            self.numbers = [0]
            """For each level the number of the token that last began a possible key, or opened
            it.
            """
            # Go's library reads `\'` and not `\/`.
            escapes = {**yaml.scanner.Scanner.ESCAPE_REPLACEMENTS, "'": "'"}
            del escapes["/"]
            self.ESCAPE_REPLACEMENTS = escapes  # type: ignore[misc] # a constant of PyYAML
            yaml.reader.Reader.__init__(self, text)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)

        def take(self, pattern: re.Pattern[str]) -> re.Match[str]:
            """Match a pattern here, which it always does, and go behind it."""
            match = pattern.match(self.buffer, self.pointer)
            assert match is not None
            self.forward(match.end() - match.start())
            return match

        def fail(self, context: str, start: Any, problem: str) -> NoReturn:
            """Raise a ScannerError with the present position as the place of the `problem`;
            `context` says what was being read since the mark `start`.
            """
            raise yaml.scanner.ScannerError(context, start, problem, self.get_mark())

        def scan_line_break(self) -> str:
            """Skip a line break. Return a line feed for it, or U+2028 or U+2029."""
            line_break: str = super().scan_line_break()  # type: ignore[no-untyped-call] # untyped
            return line_break

        def scan_to_next_token(self) -> None:
            """Skip blanks, line breaks, comments, and a byte order mark at the start of the text.
            Tabs are skipped only in flow collections and where no key may begin, as in libyaml.
            Outside of flow collections, a line break allows a simple key behind it. ScannerError
            for two byte order marks.
            """
            if self.index == 0 and self.peek() == "\ufeff":
                self.forward()
                if self.peek() == "\ufeff":
                    # Behind two of them Go's library skips the first character of each line.
                    start = self.get_mark()
                    self.fail("while scanning", start, "control characters are not allowed")
            while True:
                while self.peek() == " " or (
                    self.peek() == "\t" and (self.flow_level or not self.allow_simple_key)
                ):
                    self.forward()
                if self.peek() == "#":
                    self.take(_LINE)
                if self.peek() not in _BREAKS:
                    return
                self.scan_line_break()
                if not self.flow_level:
                    self.allow_simple_key = True

        # A token that may turn out to begin a simple key is the last one to be handed out: the KEY
        # token comes before it. Go's library finds such a token by its number, and forgets the
        # number of a bracket when the collection ends empty, so that `{}: a` is `{}` to it.

        def need_more_tokens(self) -> bool:
            """Return True if more text must be scanned before a token can be handed out: there is
            none, or the next one may still turn out to begin a simple key. False at the end of the
            text. ScannerError if a required key cannot end any more.
            """
            if self.done:
                return False
            if not self.tokens:
                return True
            level = self.levels.get(self.tokens_taken)
            return level is not None and self.is_possible_key(level)

        def is_possible_key(self, level: int) -> bool:
            """Return True if a key in the brackets of a level may end here: on its line, at most
            1,024 characters behind its start. Otherwise drop it and return False; ScannerError if
            it is required.
            """
            key = self.possible_simple_keys.get(level)
            if key is None:
                return False
            if key.line == self.line and self.index - key.index <= 1024:
                return True
            if key.required:
                problem = "could not find expected ':'"
                self.fail("while scanning a simple key", key.mark, problem)
            del self.possible_simple_keys[level]
            return False

        def stale_possible_simple_keys(self) -> None:
            """Do nothing: keys are checked where they are looked up."""

        def save_possible_simple_key(self) -> None:
            """If a simple key may begin here, note its place and the number of its first token, so
            that a later `:` finds it; otherwise do nothing. ScannerError if it replaces one that is
            required.
            """
            if self.allow_simple_key:
                super().save_possible_simple_key()
                number = self.tokens_taken + len(self.tokens)
                self.numbers[-1] = number
                self.levels[number] = self.flow_level

        def remove_possible_simple_key(self) -> None:
            """Forget the possible key in the innermost open brackets, if there is one. ScannerError
            if it is required.
            """
            key = self.possible_simple_keys.get(self.flow_level)
            super().remove_possible_simple_key()
            if key is not None:
                self.levels.pop(key.token_number, None)

        def fetch_flow_collection_start(self, token_class: Any) -> None:
            """Read an opening bracket, append its token of the class `token_class`, and note its
            number, so that the collection can be a simple key.
            """
            number = self.tokens_taken + len(self.tokens)
            super().fetch_flow_collection_start(token_class)
            self.numbers.append(number)

        def fetch_flow_collection_end(self, token_class: Any) -> None:
            """Read a closing bracket and append its token of the class `token_class`. It need not
            close one: then the parser refuses it later. The number of the collection is forgotten,
            so that an empty one cannot be a key.
            """
            is_open = self.flow_level > 0
            super().fetch_flow_collection_end(token_class)
            if is_open:
                self.levels.pop(self.numbers.pop(), None)
            else:
                self.flow_level = 0

        def fetch_value(self) -> None:
            """Read the `:` of a value and append its token. If a simple key (`key:` in one line)
            may end here, its KEY token, and outside of brackets the start of a mapping if it begins
            one, are inserted before the tokens of the key. ScannerError where no value may stand.
            """
            if not self.is_possible_key(self.flow_level):
                super().fetch_value()
                return
            key = self.possible_simple_keys.pop(self.flow_level)
            self.insert_token(key.token_number, yaml.KeyToken(key.mark, key.mark))
            if not self.flow_level and self.add_indent(key.column):
                start = yaml.BlockMappingStartToken(key.mark, key.mark)
                self.insert_token(key.token_number, start)
            self.levels.pop(key.token_number, None)
            self.allow_simple_key = False
            mark = self.get_mark()
            self.forward()
            self.tokens.append(yaml.ValueToken(mark, self.get_mark()))

        def insert_token(self, number: int, token: Any) -> None:
            """Put a token before the one with a number, or last if that was handed out."""
            at = number - self.tokens_taken
            self.tokens.insert(at if at >= 0 else len(self.tokens), token)

        def fetch_stream_end(self) -> None:
            """End the token stream as if the text ended with a line break."""
            if self.column:
                # As if a line break were there.
                self.column = 0
                self.line += 1
            super().fetch_stream_end()

        def scan_directive_name(self, start_mark: Any) -> str:
            """Read and return a directive's name, YAML or TAG; ScannerError for any other."""
            name: str = self.take(_NAME)[0]
            if not name:
                problem = "could not find expected directive name"
            elif self.peek() not in "\0" + _BLANKS:
                problem = "found unexpected non-alphabetical character"
            elif name not in ("YAML", "TAG"):
                problem = "found unknown directive name"
            else:
                return name
            self.fail("while scanning a directive", start_mark, problem)

        def scan_yaml_directive_value(self, start_mark: Any) -> tuple[int, int]:
            """Read the version of a `%YAML` directive, such as `1.2`, with the blanks before it,
            and return its two numbers, each of one or two digits. Whether it is supported is not
            checked here. ScannerError, placed at `start_mark`, for anything else.
            """
            self.take(_WHITE)
            numbers = []
            for mark in ".", "":
                digits = self.take(_NUMBER)[0]
                if not digits or len(digits) > 2:
                    words = "found extremely long" if digits else "did not find expected"
                    self.fail("while scanning a directive", start_mark, f"{words} version number")
                numbers.append(int(digits))
                if mark and self.peek() != mark:
                    problem = "did not find expected digit or '.' character"
                    self.fail("while scanning a directive", start_mark, problem)
                self.forward(len(mark))
            return numbers[0], numbers[1]

        def scan_tag_directive_value(self, start_mark: Any) -> tuple[str, str]:
            """Read the handle (`!`, `!!` or `!name!`) and the prefix, a URI, of a `%TAG` directive,
            with the blanks before each, and return both. ScannerError if one is malformed or not
            followed by white space.
            """
            self.take(_WHITE)
            handle: str = self.scan_tag_handle("directive", start_mark)
            if self.peek() not in " \t":
                problem = "did not find expected whitespace"
                self.fail("while scanning a directive", start_mark, problem)
            self.take(_WHITE)
            prefix: str = self.scan_tag_uri("directive", start_mark)
            if self.peek() not in "\0" + _BLANKS:
                problem = "did not find expected whitespace or line break"
                self.fail("while scanning a directive", start_mark, problem)
            return handle, prefix

        def scan_directive_ignored_line(self, start_mark: Any) -> None:
            """Move past the rest of a directive's line: blanks, a comment, and the line break.
            ScannerError, with the mark `start_mark`, for anything else.
            """
            self.take(_WHITE)
            if self.peek() == "#":
                self.take(_LINE)
            if self.peek() not in "\0" + _BREAKS:
                problem = "did not find expected comment or line break"
                self.fail("while scanning a directive", start_mark, problem)
            self.scan_line_break()

        def scan_tag_handle(self, name: str, start_mark: Any) -> str:
            """Read a handle at a `!` and return it: `!`, `!name!`, or in a tag also `!name`, which
            is the beginning of a suffix. `name` is `tag` or `directive`, for errors too.
            ScannerError if no handle is here.
            """
            if self.peek() != "!":
                self.fail(f"while scanning a {name}", start_mark, "did not find expected '!'")
            handle: str = self.take(_HANDLE)[0]
            if name == "directive" and handle != "!" and not handle.endswith("!"):
                self.fail(f"while scanning a {name}", start_mark, "did not find expected '!'")
            return handle

        def scan_tag(self) -> Any:
            """Read a tag from its `!`, in one of the forms `!<uri>`, `!suffix`, `!handle!suffix`
            and `!`, and return a TagToken with the pair of handle and suffix; the handle is None
            for `!<uri>` and for `!` alone. ScannerError if it is malformed or not followed by white
            space or the end of the text.
            """
            start = self.get_mark()
            handle: str | None = None
            if self.peek(1) == "<":
                self.forward(2)
                suffix = self.scan_tag_uri("tag", start)
                if self.peek() != ">":
                    self.fail("while scanning a tag", start, "did not find the expected '>'")
                self.forward()
            else:
                handle = self.scan_tag_handle("tag", start)
                if len(handle) > 1 and handle.endswith("!"):
                    suffix = self.scan_tag_uri("tag", start)
                else:
                    suffix = handle[1:] + self.scan_tag_rest(start)
                    handle, suffix = ("!", suffix) if suffix else (None, "!")
            if self.peek() not in "\0" + _BLANKS:
                problem = "did not find expected whitespace or line break"
                self.fail("while scanning a tag", start, problem)
            return yaml.TagToken((handle, suffix), start, self.get_mark())

        def scan_tag_rest(self, start: Any) -> str:
            """Read and return the characters of a URI here, of which there may be none."""
            if not _URI.match(self.peek()):
                return ""
            rest: str = self.scan_tag_uri("tag", start)
            return rest

        def scan_block_scalar(self, style: str) -> Any:
            """Read a block scalar from its indicator to behind its last line, and return its
            ScalarToken. `style` is `|` (line breaks stay) or `>` (a line feed between two lines
            that do not begin with a blank becomes a space, or is dropped before empty lines). Of
            the breaks at the end, the header keeps none with `-`, all with `+`, and otherwise one.
            ScannerError for an invalid header or a tab in the indentation.
            """
            start = self.get_mark()
            self.forward()
            chomping, indent = self.scan_block_scalar_header(start)
            breaks, end, indent = self.scan_indentation(indent, start)
            chunks: list[str] = []
            line_break, was_blank = "", False
            while self.column == indent and self.peek() != "\0":
                is_blank = self.peek() in " \t"
                if style == ">" and not was_blank and not is_blank and line_break == "\n":
                    chunks += breaks or " "
                else:
                    chunks += [line_break, *breaks]
                was_blank = is_blank
                chunks.append(self.take(_LINE)[0])
                line_break = self.scan_line_break()
                breaks, end, indent = self.scan_indentation(indent, start)
            if chomping != "-":
                chunks.append(line_break)
            if chomping == "+":
                chunks += breaks
            return yaml.ScalarToken("".join(chunks), False, start, end, style)

        def scan_block_scalar_header(self, start: Any) -> tuple[str, int]:
            """Read the line of a block scalar's indicator, from behind that, with its line break.
            Return the chomping, `-`, `+` or "" for the default, and the column where lines begin, 0
            if it is not given. ScannerError for an invalid header.
            """
            before, digit, behind = self.take(_HEADER).groups()
            if digit == "0":
                problem = "found an indentation indicator equal to 0"
                self.fail("while scanning a block scalar", start, problem)
            if self.peek() not in "\0" + _BREAKS or (before and behind):
                problem = "did not find expected comment or line break"
                self.fail("while scanning a block scalar", start, problem)
            self.scan_line_break()
            return before or behind, max(self.indent, 0) + int(digit) if digit else 0

        def scan_indentation(self, indent: int, start: Any) -> tuple[list[str], Any, int]:
            """Skip the indentation of a block scalar's lines and empty lines. Return the line
            breaks, the mark behind the last one, and the column where lines begin, which is found
            here if `indent` is 0. ScannerError for a tab in the indentation.
            """
            breaks: list[str] = []
            end = self.get_mark()
            deepest = 0
            while True:
                while (not indent or self.column < indent) and self.peek() == " ":
                    self.forward()
                deepest = max(deepest, self.column)
                if (not indent or self.column < indent) and self.peek() == "\t":
                    problem = "found a tab character where an indentation space is expected"
                    self.fail("while scanning a block scalar", start, problem)
                if self.peek() not in _BREAKS:
                    break
                breaks.append(self.scan_line_break())
                end = self.get_mark()
            return breaks, end, indent or max(deepest, self.indent + 1, 1)

        def scan_plain(self) -> Any:
            """Read an unquoted scalar, which may go on over several lines, and return its
            ScalarToken; line breaks in it are folded as in libyaml. It ends before a `#` behind
            white space, before what cannot be part of it (such as `: `, and brackets and commas in
            a flow collection), and outside of flow collections at a line that is not indented
            enough. Where it goes over a line break, a simple key may begin behind it.
            """
            start = end = self.get_mark()
            chunks: list[str] = []
            spaces: list[str] | None = []
            while self.peek() != "#":
                words = _WORDS[bool(self.flow_level)].match(self.buffer, self.pointer)
                length = words.end() - words.start() if words else 0
                if length == 0:
                    break
                self.allow_simple_key = False
                chunks += [*(spaces or ()), self.prefix(length)]
                self.forward(length)
                end = self.get_mark()
                spaces = self.scan_plain_spaces(self.indent + 1, start)
                if not spaces or (not self.flow_level and self.column < self.indent + 1):
                    break
            return yaml.ScalarToken("".join(chunks), True, start, end)

        def scan_plain_spaces(self, indent: int, start_mark: Any) -> list[str] | None:
            """Read blanks and line breaks inside an unquoted scalar; return the texts that stand
            for them: the blanks as they are, or for a single line feed a space and for more all but
            the first. [] if there are none, None before a document marker (`---`, `...`). Behind a
            line break a simple key may begin. ScannerError for a tab before column `indent` of a
            further line.
            """
            blanks, first, breaks = "", "", []
            while self.peek() in _BLANKS:
                if self.peek() in " \t":
                    if first and self.peek() == "\t" and self.column < indent:
                        problem = "found a tab character that violates indentation"
                        self.fail("while scanning a plain scalar", start_mark, problem)
                    blanks += self.peek()
                    self.forward()
                    continue
                line_break: str = self.scan_line_break()
                if first:
                    breaks.append(line_break)
                first = first or line_break
                self.allow_simple_key = True
                if self.prefix(3) in ("---", "...") and self.peek(3) in "\0" + _BLANKS:
                    return None
            if not first:
                return [blanks] if blanks else []
            return [*([first] if first != "\n" else [] if breaks else [" "]), *breaks]

    return Loader
