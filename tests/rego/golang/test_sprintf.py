"""Templates are taken apart once; what the careful reader says is what both say."""

from __future__ import annotations

from random import Random

from doorward.rego.golang.sprintf import Argument, _plain_template, _Printer, format_text

PIECES = ["%", "%5", "%-10", "%.2", "%+", "%#", "% ", "%0", "%08", "%.", "a", "b%%", "%[1]", "%*"]
VERBS = [*"xdvsfXqTgetcUw", "é"]
ARGUMENTS: list[Argument] = [
    *(1, -5, 255, 2**70, 0, 1.5, -2.25, 1e30, "abc", "é\x01", True, 0.0, -0.0),
]


def test_both_readers_write_the_same() -> None:
    draw = Random(7)
    plain = 0
    for _ in range(20_000):
        parts = [draw.choice([*PIECES, *VERBS]) for _ in range(draw.randrange(1, 7))]
        template = "".join(parts)
        arguments = [draw.choice(ARGUMENTS) for _ in range(draw.randrange(4))]
        known = _plain_template(template)
        plain += known is not None and len(known.verbs) == len(arguments)
        wanted = _Printer(template, arguments).run()
        assert format_text(template, arguments) == wanted, (template, arguments)
    assert plain > 1_000


def test_a_width_ends_where_its_last_digit_is_too_much() -> None:
    assert len(format_text("%1000001d", [1])) == 1_000_001
    assert len(format_text("%010000009d", [1])) == 10_000_009
    assert format_text("%10000010d", [1]) == "%!(NOVERB)%!(EXTRA int64=1)"
    assert format_text("%[1000001]d", [1]) == "%!d(BADINDEX)"
    assert format_text("%*d", [1_000_001, 1]) == "%!(BADWIDTH)1"
