"""Tokens, their places as OPA counts them, and what is wrong with a text before it is grammar."""

from __future__ import annotations

import subprocess
import sys
from operator import lt

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from doorward.rego.source import Source
from doorward.rego.syntax.lexer import EOF, Lexer, Token, loose_tokens


def tokens(text: str) -> list[Token]:
    lexer = Lexer(Source("", text))
    actual = [lexer.first()]
    while actual[-1].kind != EOF:
        actual.append(lexer.after(actual[-1].end))
    return actual[:-1]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("a1 _b", ["identifier", "identifier"]),
        ("1 1.5 1e3 1.5E-3", ["number"] * 4),
        ('"a\\"b" `c`', ["string", "string"]),
        (":= : == = != >= > <= <", [":=", ":", "==", "=", "!=", ">=", ">", "<=", "<"]),
        ("[]{}(),;.+-*/%&|", list("[]{}(),;.+-*/%&|")),
        ('$"a{', ["template-string-part"]),
        ('$"a"', ["template-string-end"]),
        ("$`a{", ["raw-template-string-part"]),
        ("$`a`", ["raw-template-string-end"]),
        ("\ufeffa", ["identifier"]),
    ],
)
def test_kinds(text: str, kinds: list[str]) -> None:
    assert [t.kind for t in tokens(text)] == kinds


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ('"a', ["non-terminated string"]),
        ('"a\n', ["non-terminated string"]),
        ("`a", ["non-terminated string"]),
        ('$"a', ["non-terminated string"]),
        (r'"\q"', ["illegal escape sequence"]),
        ("1.", ["expected fraction"]),
        ("1e", ["expected exponent"]),
        ("1.ex", ["expected fraction", "expected exponent", "illegal number format"]),
        ("1x", ["illegal number format"]),
        ("!", ["illegal ! character"]),
        ("$", ["illegal $ character"]),
        ("@", []),
        ("a\0", ["illegal null character"]),
        (" \0", ["illegal null character"]),
        ("#c\0", ["illegal null character"]),
        ('"a\ufeff"', ["illegal byte-order mark"]),
    ],
)
def test_faults(text: str, faults: list[str]) -> None:
    token = tokens(text)[0]
    assert token.kind == "illegal"
    assert list(token.faults) == faults


def test_rows_and_columns_count_characters() -> None:
    lexer = Lexer(Source("", 'é "日" x\n\ty'))
    spans = [lexer.span(t.start, t.end) for t in tokens(lexer.text)]
    assert [(s.row, s.col) for s in spans] == [(1, 1), (1, 3), (1, 7), (2, 2)]


def test_the_end_and_a_line_break_have_opas_columns() -> None:
    lexer = Lexer(Source("", "ab\ncd"))
    assert (lexer.span(5, 5).row, lexer.span(5, 5).col) == (2, 2)
    blank = lexer.blank(2)
    assert (lexer.span(blank.start, blank.end).row, lexer.span(blank.start, blank.end).col) == (
        2,
        0,
    )
    ended = Lexer(Source("", "ab\n")).span(3, 3)
    assert (ended.row, ended.col) == (2, 0)


def test_a_token_knows_the_gap_before_it() -> None:
    a, b, c, d = tokens("a b\nc#x\nd")
    assert [(t.space, t.newline) for t in (a, b, c, d)] == [
        (False, False),
        (True, False),
        (True, True),
        (True, True),
    ]


def test_a_carriage_return_ends_a_comment() -> None:
    lexer = Lexer(Source("", "#a \r\nx"))
    lexer.first()
    assert [c.text for c in lexer.comment_nodes()] == ["a "]


@given(
    st.lists(
        st.sampled_from(["a", " ", "\n", "\0", '"', "`", "$", "{", "}", "]", "#", "\ufeff", "\r"])
    )
)
@example(["a", "\n", "\0", "\0", "]"])
@example(["$", '"', "{", "}", "\n", "\0"])
def test_loose_tokens_end(parts: list[str]) -> None:
    text = "".join(parts)
    lexer = Lexer(Source("", text))
    starts = []
    for token in loose_tokens(lexer, lexer.first()):
        starts.append(token.start)
        assert len(starts) <= len(text)
    assert all(map(lt, starts, starts[1:]))


def test_a_long_text_takes_no_memory_but_its_own() -> None:
    """In a process of its own, whose memory ends long before what a state a character takes."""
    program = """
import resource
from doorward.rego.source import Source
from doorward.rego.tools import parse_module

texts = ['"' + "a" * 4_000_000 + '"', '"' + "\\\\n" * 1_000_000 + '"', "x" * 4_000_000]
texts.append("1 " + "# x\\n" * 500_000)
resource.setrlimit(resource.RLIMIT_AS, (400_000_000, 400_000_000))
for text in texts:
    parse_module(Source("a.rego", "package a\\n\\np := " + text))
"""
    subprocess.run([sys.executable, "-c", program], check=True)
