"""Mail addresses, in the forms that Go reads and refuses."""

from __future__ import annotations

import pytest

from doorward.rego.golang.mail import is_address


@pytest.mark.parametrize(
    "text",
    [
        "a@b",
        " a.b@c.d\t",
        "ä@ö",
        "<a@b>",
        "A B <a@b>",
        "A. B. <a@b>",
        '"A, B" C <a@b>',
        "A (c) B <a@b>",
        "a@b (c (d))",
        r"a@b (c \) d)",
        '"a b"@c',
        r'"a\"b"@c',
        "a@[1.2.3.4]",
        "a@[::1]",
        "A: a@b;",
        "A: a@b (c); (d)",
        "=?utf-8?q?a?= <a@b>",
        "=?x?b?*?= <a@b>",
        "=?x?q?=zz?= <a@b>",
        "=?x?z?a?= <a@b>",
        "=??q?a?= <a@b>",
        "a@b (=?UTF-8?B?YQ==?=)",
        "a!#$%&'*+-/=?^_`{|}~@b",
        "a@-b-",
    ],
)
def test_addresses(text: str) -> None:
    assert is_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a",
        "a@",
        "@b",
        "a@b@c",
        "a@b c",
        "a b@c",
        "a..b@c",
        ".a@b",
        "a@b.",
        '""@b',
        '"a@b',
        '"a\\',
        '"\x01"@b',
        '"a" "b',
        "A B",
        "<a@b",
        "a@b>",
        "A <a>",
        "(c) a@b",
        "a@b (c",
        "a@b\n",
        "a@[x]",
        "a@[1.2.3.4",
        "a@[IPv6:::1]",
        "a@b,c@d",
        "A:;",
        "A: a@b",
        "A: a@b, c@d;",
        "A: B: a@b;;",
        "A: a@b c;",
        "=?x?q?a?= <a@b>",
        "=?x?q?=41?= <a@b>",
        "=?x?b?YQ==?= <a@b>",
        "a@b (=?x?q?a?=)",
        "A =?x?q?a?= (c <a@b>",
    ],
)
def test_other_texts(text: str) -> None:
    assert not is_address(text)


def test_a_name_ends_before_a_word_that_cannot_be_read() -> None:
    assert is_address("A =?x?q?a?= <a@b>")
    assert not is_address('A "b <a@b>')


def test_many_comments_take_linear_time() -> None:
    assert is_address("a@b " + "(" * 50_000 + ")" * 50_000)
    assert not is_address("a@b " + "(c)" * 50_000 + "(")
