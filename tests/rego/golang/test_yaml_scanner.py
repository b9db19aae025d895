"""How YAML is scanned where PyYAML differs from libyaml and its port to Go."""

from __future__ import annotations

from functools import partial

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego.errors import BuiltinError
from doorward.rego.values import to_json

unmarshal = partial(invoke, "yaml.unmarshal")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\/"', None),
        (r'''"\'"''', '"\'"'),
        ("!a\tb", '"b"'),
        ("! b", '"b"'),
        ("!!\tb", None),
        ("!s%74r b", '"b"'),
        ("!a!b c", None),
        ("!e!", None),
        ("!<a>b", None),
        ("!<a", None),
        ("é!: 1", '{"é!":1}'),
        ("|#c\n a", '"a"'),
        ("|\t#c\n a", '"a"'),
        ("|2-\n   a", '" a"'),
        ("|-2\n   a", '" a"'),
        ("|+-\n a", None),
        ("|-1-\n a", None),
        ("|0\n a", None),
        ("|10\n a", None),
        ("| a\n", None),
        ("|\n \ta", None),
        ("|1\n \ta", r'"\ta"'),
        ("|\n\n   \n a\n", '""'),
        ("|\n\n \n a\n", r'"\n\na\n"'),
        (">\n a\n b\n\n  c\n d\n", r'"a b\n\n c\nd\n"'),
        (">\n é\u2028 b\n", '"é\u2028b\\n"'),
        ("%YAML 1.1\n---\na", '"a"'),
        ("%YAML\t1.01 # c\n--- a", '"a"'),
        ("%YAML 1.001\n--- a", None),
        ("%YAML 1\n--- a", None),
        ("%YAML .1\n--- a", None),
        ("%YAML 1.1 a\n--- a", None),
        ("%TAG\t!e!\ttag:yaml.org,2002:\n--- !e!str 1", '"1"'),
        ("%TAG ! tag:yaml.org,2002:\n--- !str 1", '"1"'),
        ("%TAG !e tag:a\n--- a", None),
        ("%TAG e tag:a\n--- a", None),
        ("%TAG !e!\n--- a", None),
        ("%TAG !e!é\n--- a", None),
        ("%TAG !e! aé\n--- a", None),
        ("\ufeffa: 1", '{"a":1}'),
        ("\ufeff\ufeffa: 1", None),
        ("a: 1\n\ufeffb: 1", '{"a":1,"\ufeffb":1}'),
        ("{}: a", "{}"),
        ("[] b: c]", "[]"),
        ("[a] b: c]", None),
        ("a: {}\n {}\n  !! 0: []", None),
        ("{[]: a}", None),
        ("a]", '"a]"'),
        ("é ]", '"é ]"'),
        ("]", None),
        ("[a ? b]", None),
        ("[a? b]", None),
        ("a? b", '"a? b"'),
        ("? a\n: b", '{"a":"b"}'),
        ("a: b\n c", '{"a":"b c"}'),
        ("'a\n b': c", None),
        ("é: 'a\n b': c", None),
    ],
)
def test_scanning(text: str, value: str | None) -> None:
    if value is None:
        with pytest.raises(BuiltinError):
            unmarshal(text)
    else:
        assert to_json(unmarshal(text)) == value
