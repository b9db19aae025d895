"""The paper of the formatter by itself: lines, indentation, and where comments go."""

from __future__ import annotations

import pytest

from doorward.rego.source import Source, Span
from doorward.rego.syntax.format_terms import TermWriter
from doorward.rego.syntax.layout import Layout, UnexpectedComment, closing_row
from doorward.rego.syntax.nodes import Array, Comment, Ref, Scalar, Var

TEXT = Source("p.rego", "[\n1,\n2]\n")


def span(row: int, start: int = 0, end: int = 0) -> Span:
    return Span(TEXT, start, end, row, 1)


def comment(text: str, row: int) -> Comment:
    return Comment(text, span(row))


def test_a_comment_above_a_row_is_a_line_before_it_and_one_beside_it_ends_its_line() -> None:
    layout = Layout([comment(" above", 1), comment(" beside", 2)])
    layout.pass_row(2)
    layout.write_line("x := 1")
    assert layout.text() == "# above\nx := 1 # beside\n"


def test_a_line_takes_one_comment() -> None:
    layout = Layout([comment(" one", 1), comment(" two", 2)])
    layout.pass_row(1)
    with pytest.raises(UnexpectedComment):
        layout.pass_row(2)


def test_what_was_written_since_a_mark_is_taken_back_with_its_comments() -> None:
    layout = Layout([comment(" c", 1)])
    layout.write("kept")
    mark = layout.mark()
    layout.pass_row(2)
    layout.open_lines(delay=False)
    layout.write("dropped")
    assert layout.text_since(mark).endswith("dropped")
    layout.back(mark)
    assert (layout.text(), layout.level, len(layout.comments)) == ("kept", 0, 1)


def test_no_comment_is_written_where_none_may_be() -> None:
    layout = Layout([comment(" c", 1)])
    with layout.without_comments():
        layout.pass_row(5)
        layout.write("x")
    assert layout.text() == "x"
    layout.end_line()
    layout.pass_row(5)
    assert layout.text().startswith("x\n# c\n")


def test_terms_are_written_on_any_layout() -> None:
    layout = Layout(())
    writer = TermWriter(layout, frozenset({"if"}))
    layout.inline = True
    quoted = Scalar("if", Span(Source("", '"if"'), 0, 4, 1, 1))
    writer.term(Ref(Var("input", span(1)), (Scalar("user"), quoted)))
    assert layout.text() == 'input.user["if"]'
    assert writer.term_text(Array((Scalar(1), Scalar(2)))) == "[1, 2]"


def test_the_row_of_a_closing_bracket() -> None:
    assert closing_row(span(1, 0, 7), "[]") == 3
    assert closing_row(span(1, 0, 7), "{}") == -1
