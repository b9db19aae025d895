"""What METADATA comments become, whom they are attached to, and what is refused in them."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from doorward.rego.errors import ParseError
from doorward.rego.source import Source
from doorward.rego.syntax.metadata import MAX_NODES
from doorward.rego.syntax.nodes import Module
from doorward.rego.syntax.parser import parse_module
from doorward.rego.values import to_json


def module(text: str) -> Module:
    return parse_module(Source("p.rego", dedent(text)), annotations=True)


def fields(yaml: str) -> dict[str, object]:
    comments = indent(dedent(yaml).strip(), "# ", lambda line: True)
    (module_,) = module(f"package p\n# METADATA\n{comments}\np := 1").annotations
    return module_.fields


def fault(yaml: str, after: str = "p := 1") -> str:
    comments = indent(dedent(yaml).strip(), "# ", lambda line: True)
    with pytest.raises(ParseError) as caught:
        module(f"package p\n# METADATA\n{comments}\n{after}")
    (diagnostic,) = caught.value.diagnostics
    return f"{diagnostic.span.row}: {diagnostic.message}"


def test_fields_have_opas_forms() -> None:
    assert fields(
        """
        title: a title
        description: |
          two
          lines
        organizations: [Acme, 1]
        authors:
        - John Doe <john@example.com>
        - name: Jane
          email: jane@example.com
        - <anon@example.com>
        related_resources:
        - https://example.com/a
        - {ref: https://example.com/b, description: b}
        custom:
          text: "1"
          list: [1, 1.5, yes, true, null, ~]
          1: one
        labels: {team: a}
        schemas:
        - input: schema.in
        - data.a["b"]: {type: object}
        compile: {unknowns: [input.x], mask_rule: mask}
        ignored: [x
          ]
        """
    ) == {
        "title": "a title",
        "description": "two\nlines\n",
        "organizations": ["Acme", "1"],
        "authors": [
            {"name": "John Doe", "email": "john@example.com"},
            {"name": "Jane", "email": "jane@example.com"},
            {"email": "anon@example.com"},
        ],
        "related_resources": [
            {"ref": "https://example.com/a"},
            {"ref": "https://example.com/b", "description": "b"},
        ],
        "custom": {"text": "1", "list": [1, 1.5, "yes", True, None, None], "1": "one"},
        "labels": {"team": "a"},
        "schemas": [
            {"path": ["input"], "schema": ["schema", "in"]},
            {"path": ["data", "a", "b"], "definition": {"type": "object"}},
        ],
        "compile": {"unknowns": ["input.x"], "mask_rule": "mask"},
    }


@pytest.mark.parametrize(
    ("yaml", "json"),
    [
        ("2001-1-2", '"2001-01-02T00:00:00Z"'),
        ("0000-02-29", '"0000-02-29T00:00:00Z"'),
        ("2001-1-2T3:4:5Z", '"2001-01-02T03:04:05Z"'),
        ("2001-1-2 3:4:5", '"2001-01-02T03:04:05Z"'),
        ("2001-1-2t3:4:5.120000000001+01:00", '"2001-01-02T03:04:05.12+01:00"'),
        ("2001-1-2T03:04:05+00:00", '"2001-01-02T03:04:05Z"'),
        ("2001-02-29", '"2001-02-29"'),
        ("2001-13-2", '"2001-13-2"'),
        ("2001-1-2T24:4:5Z", '"2001-1-2T24:4:5Z"'),
        ("2001-1-2T3:4:5", '"2001-1-2T3:4:5"'),
        ("2001-1-2 3:4:5Z", '"2001-1-2 3:4:5Z"'),
        ("1e6", "1e+06"),
        ("1234567.5", "1.2345675e+06"),
        ("-2.5e-7", "-2.5e-07"),
        ("123456.5", "123456.5"),
        ("100.0", "100"),
        ("-0.0", "-0"),
        ("0.0001", "0.0001"),
        ("0.00001", "1e-05"),
        ("1_000.5", "1000.5"),
        ("1e400", '"1e400"'),
        ("._5", '"._5"'),
        ("+abc", '"+abc"'),
        ("0x1f", "31"),
        ("017", "15"),
        ("!!float 3", "3"),
        ("!!int '3'", "3"),
        ("!!str 1", '"1"'),
        ("!foo bar", '"bar"'),
        ("! 1", "1"),
        ("!!binary 4pyT", '"\u2713"'),
        ("{<<: [{a: 1}, {a: 2, b: 3}]}", '{"a":1,"b":3}'),
        ("{? a, ? b}", '{"a":null,"b":null}'),
    ],
)
def test_custom_values_are_those_of_opas_yaml(yaml: str, json: str) -> None:
    custom = fields(f"custom: {{x: {yaml}}}")["custom"]
    assert isinstance(custom, dict)
    assert to_json(custom["x"]) == json


def test_what_is_written_precedes_what_is_merged() -> None:
    assert fields("title: a\n<<: {title: b, description: c}") == {"title": "a", "description": "c"}
    assert fields("<<: {<<: {title: a}}") == {"title": "a"}


def test_empty_fields_say_nothing() -> None:
    yaml = "title: ~\nauthors: ~\ncustom: ~\nlabels: x\nentrypoint: no\ncompile: {unknowns: 1}"
    assert fields(yaml) == {}
    assert fields("{}") == {}
    assert fields("# a YAML comment alone") == {}
    assert fields("title: !!binary YQ==") == {"title": "a"}


def test_scopes_follow_from_what_comes_next() -> None:
    module_ = module(
        """\
        # METADATA
        # title: package
        package p

        # METADATA
        # title: rule
        p if input.a

        # METADATA
        # title: entrypoint
        # entrypoint: true
        p if input.b

        # METADATA
        # title: other
        # scope: document
        a.b[x] if some x in input

        a.b[x] if some x in input.c
        """
    )
    assert [a.scope for a in module_.annotations] == ["package", "rule", "document", "document"]
    titles = [[a.fields["title"] for a in rule.annotations] for rule in module_.rules]
    assert titles == [["rule", "entrypoint"], ["entrypoint"], ["other"], ["other"]]


def test_annotations_are_read_only_when_asked_for() -> None:
    source = Source("p.rego", "package p\n# METADATA\n# title: [\np := 1")
    assert parse_module(source).annotations == ()
    with pytest.raises(ParseError, match="did not find expected node content"):
        parse_module(source, annotations=True)


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("", "2: expected METADATA block, found whitespace"),
        ("scope: x", "2: invalid annotation scope 'x'. Use one of 'rule', 'document', 'package', "
         "or 'subpackages'"),
        ("scope: package", "2: annotation scope 'package' must be applied to package (have rule)"),
        ("scope: rule\nentrypoint: yes", "2: annotation entrypoint applied to non-document or "
         "package scope 'rule'"),
        ("title: []", "3: yaml: unmarshal errors:\n  line 1: cannot unmarshal !!seq into string"),
        ("entrypoint: 1", "3: yaml: unmarshal errors:\n  line 1: cannot unmarshal !!int `1` "
         "into bool"),
        ("authors: long, long text", "3: yaml: unmarshal errors:\n  line 1: cannot unmarshal "
         "!!str `long, l...` into []interface {}"),
        ("title: a\ntitle: b", '4: yaml: unmarshal errors:\n  line 2: mapping key "title" '
         "already defined at line 1"),
        ("custom: {a: [&b [*b]]}", "3: yaml: anchor 'b' value contains itself"),
        ("<<: &m {<<: *m}", "3: yaml: anchor 'm' value contains itself"),
        ("authors: [1]", "2: invalid author definition %!s(int=1): invalid value type, must be "
         "string or map"),
        ("authors: [{name: ' '}]", "2: invalid author definition map[name: ]: 'name' and/or "
         "'email' values required in object"),
        ("related_resources: ['']", "2: invalid related-resource definition : ref URL may not be "
         "empty string"),
        ("related_resources: [1.5]", "2: invalid related-resource definition %!s(float64=1.5): "
         "invalid value type, must be string or map"),
        ("related_resources: ['http://[']", "2: invalid related-resource definition http://[: "
         'parse "http://[": Invalid IPv6 URL'),
        ("schemas: [{}]", "2: invalid document reference"),
        ("schemas: [{'[': a}]", "2: invalid document reference"),
        ("schemas: [{input: '['}]", "2: invalid schema reference"),
        ("authors: [[a, ~, no, true]]", "2: invalid author definition [a <nil> no "
         "%!s(bool=true)]: invalid value type, must be string or map"),
        ("authors: [~]", "2: invalid author definition %!s(<nil>): invalid value type, must be "
         "string or map"),
        ("authors: [{10: a, 9: b, -10: c, -9: d}]", "2: invalid author definition "
         "map[%!s(int=-10):c %!s(int=-9):d %!s(int=9):b %!s(int=10):a]: "
         "invalid map key type(s): "),
        ("authors: [{10.5: a, 9.5: b}]", "2: invalid author definition "
         "map[%!s(float64=9.5):b %!s(float64=10.5):a]: invalid map key type(s): "),
        ("authors: [{'!': a, 10: b, 9: c, true: d, false: e, ~: ~, 1.5: f}]",
         "2: invalid author definition map[<nil>:<nil> %!s(bool=false):e %!s(bool=true):d "
         "%!s(float64=1.5):f %!s(int=9):c %!s(int=10):b !:a]: invalid map key type(s): "),
        ("related_resources: [{ref: '', z: {10: ~, 9: [~]}}]", "2: invalid related-resource "
         "definition map[ref: z:map[10:<nil> 9:[<nil>]]]: 'ref' value required in object"),
        ("entrypoint: []", "3: yaml: unmarshal errors:\n  line 1: cannot unmarshal !!seq into "
         "bool"),
        ("entrypoint: ~\nentrypoint: 1.5", '4: yaml: unmarshal errors:\n  line 2: mapping key '
         '"entrypoint" already defined at line 1'),
        ("entrypoint: 1.5", "3: yaml: unmarshal errors:\n  line 1: cannot unmarshal !!float "
         "`1.5` into bool"),
        ("authors: 'a'", "3: yaml: unmarshal errors:\n  line 1: cannot unmarshal !!str `a` into "
         "[]interface {}"),
        ("authors: true", "3: yaml: unmarshal errors:\n  line 1: cannot unmarshal !!bool `true` "
         "into []interface {}"),
        ("title: !!binary x", "3: yaml: !!binary value contains invalid base64 data"),
        ("title: \x07", "3: yaml: control characters are not allowed"),
        ("compile: {unknowns: ['1']}", '2: invalid unknowns element "1": expected ref but got 1'),
        ("custom: {x: !!int a}", "3: yaml: cannot decode !!str `a` as a !!int"),
        ("custom: {x: !!bool '3'}", "3: yaml: cannot decode !!int `3` as a !!bool"),
        ("custom: {<<: 1}", "3: yaml: map merge requires map or sequence of maps as the value"),
        ("custom: {<<: [1]}", "3: yaml: map merge requires map or sequence of maps as the value"),
        ("custom: {[~, 1e3, '2']: 3}", "3: yaml: unmarshal errors:\n  line 1: cannot unmarshal "
         "!!seq into string"),
        ("custom: {x: {[~, 1e3, '2']: 3}}", '3: yaml: invalid map key: []interface '
         '{}{interface {}(nil), 1000, "2"}'),
        ("custom: {x: {{b: true, a: [x]}: 3}}", '3: yaml: invalid map key: map[string]interface '
         '{}{"a":[]interface {}{"x"}, "b":true}'),
        ("custom: {x: {{1: 2}: 3}}", "3: yaml: invalid map key: map[interface {}]interface "
         "{}{1:2}"),
        ("custom: {x: {1: a}}", "2: invalid map key type(s): "),
        ("schemas: [{input: {1: a}}]", '2: invalid schema declaration for path "input"'),
        ("custom: {x: {y: {true: 3}}}", "2: object member name must be a string"),
        ("schemas: [{input: {y: {true: 3}}}]", "2: invalid schema definition: object member name "
         "must be a string"),
        ("related_resources: [{1: a}]", "2: invalid related-resource definition "
         "map[%!s(int=1):a]: invalid map key type(s): "),
        (f"custom: {{x: {'[' * 12_000}{']' * 12_000}}}", "3: yaml: exceeded max depth"),
        ("compile: {mask_rule: '[]'}", '2: invalid mask_rule annotation type "[]": string'),
    ],
)  # fmt: skip
def test_refusals(yaml: str, message: str) -> None:
    assert fault(yaml) == message


@pytest.mark.parametrize(
    ("yaml", "hint"),
    [
        ("schemas: [{}]", "a key in `schemas` is `input`"),
        ("schemas: [{input: a}]", "a value in `schemas` is `schema`"),
        ("compile: {mask_rule: '[]'}", "a variable, a reference or a string"),
    ],
)
def test_an_invalid_reference_has_a_hint(yaml: str, hint: str) -> None:
    source = Source("p.rego", f"# METADATA\n# {yaml}\npackage p\n")
    with pytest.raises(ParseError) as caught:
        parse_module(source, annotations=True)
    assert hint in (caught.value.diagnostics[0].hint or "")


def test_an_annotation_needs_something_to_annotate() -> None:
    assert fault("title: x", after="").startswith("2: invalid annotation scope ''")
    message = "2: annotation scope 'rule' must be applied to rule"
    assert fault("scope: rule", after="") == message
    assert fault("title: x", after="import data.a").startswith(
        "2: invalid annotation scope 'import'"
    )


def test_aliases_cannot_make_a_block_grow_without_bound() -> None:
    lines = ["custom:", "  a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for n in range(1, 8):
        lines.append(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]")
    assert MAX_NODES < 10**7
    assert fault("\n".join(lines)) == "3: yaml: document contains excessive aliasing"
