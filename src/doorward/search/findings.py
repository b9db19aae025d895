"""The result of a search as text, JSON and Markdown, and each finding as a test in Rego."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from doorward.base.counting import counted
from doorward.pdp.snapshot import document_ref
from doorward.rego import Undefined, to_json, to_python, to_rego
from doorward.replay.compare import Answer
from doorward.search.searching import NOW_NS, Finding, Reach, Search

__all__ = ["absence_test", "as_json", "describe_unreached", "markdown", "rego_test", "text"]

_WORD: Final = re.compile(r"[^A-Za-z0-9]+")


def summarize(search: Search) -> str:
    """Summarize a search: requests, differences, built-ins without an inverse, then one line for
    each expression that was not seen both to hold and to fail, or not seen to be reached. One
    sentence if both versions have the same rules and data.
    """
    if search.is_equal:
        return "The versions have the same rules and data."
    return (
        (
            f"{counted(search.candidates, 'request')} tried in {search.seconds:.1f} s, "
            f"{search.different:,} decided differently, with "
            f"{counted(len(search.findings), 'cause')}. "
            "Requests that were not tried may differ as well."
        )
        + _not_inverted(search)
        + "".join(f"\n{line}" for line in describe_unreached(search.reach))
    )


def describe_unreached(reach: Iterable[Reach]) -> list[str]:
    """Return one line for each expression that no request made hold, or none made fail; [] if all
    were seen to do both.
    """
    lines = []
    for each in reach:
        if not each.is_full:
            lacks = (
                "made this fail"
                if each.holds
                else "made this hold"
                if each.fails
                else "reached this"
            )
            lines.append(f"no request {lacks}: {each.where} `{_one_line(each.text)}`")
    return lines


def _not_inverted(search: Search) -> str:
    """Return a sentence that names the built-ins without an inverse; "" if there are none."""
    names = ", ".join(sorted(search.not_inverted))
    return f" Conditions on results of {names} can be met by chance only." if names else ""


def text(search: Search) -> str:
    """Format the result of a search for a terminal: each finding with a test in Rego, then the
    summary.
    """
    return "\n".join([*_text(search), summarize(search)]) + "\n"


def _text(search: Search) -> Iterator[str]:
    """Yield the lines that describe each finding: both answers, the cause, the input and a test in
    Rego, then an empty line.
    """
    for number, each in enumerate(search.findings, start=1):
        change = f"was {_show(each.old)}, is {_show(each.new)}"
        yield f"{number}. {each.kind}: {document_ref(each.path)} {change}"
        yield f"   {each.cause.text}{f' ({each.cause.rule})' if each.cause.rule else ''}"
        yield f"   input: {to_json(each.input)}"
        yield from [f"   {line}" for line in rego_test(each, number).splitlines()]
        yield ""


def markdown(search: Search) -> str:
    """Format the result of a search as Markdown, for a pull request."""
    lines = [f"### Differences: {len(search.findings)}", "", summarize(search)]
    for number, each in enumerate(search.findings, start=1):
        was = f"`{document_ref(each.path)}` was `{_show(each.old)}`, is `{_show(each.new)}`"
        lines += ["", f"**{each.kind}**: {was}", "", "```rego", rego_test(each, number), "```"]
    return "\n".join(lines) + "\n"


def as_json(search: Search) -> str:
    """Format the result of a search as indented JSON with a line end: counts, reach, and each
    finding with its test in Rego.
    """
    document = {
        "tried": search.candidates,
        "different": search.different,
        "seconds": round(search.seconds, 3),
        "not_inverted": sorted(search.not_inverted),
        "equal": search.is_equal,
        "reach": [
            {"where": each.where, "text": each.text, "holds": each.holds, "fails": each.fails}
            for each in search.reach
        ],
        "findings": [
            {
                "kind": each.kind,
                "path": each.path,
                "rule": each.cause.rule,
                "cause": each.cause.text,
                "input": to_python(each.input),
                "was": _document(each.old),
                "is": _document(each.new),
                "test": rego_test(each, number),
            }
            for number, each in enumerate(search.findings, start=1)
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def rego_test(finding: Finding, number: int = 1) -> str:
    """Return a Rego test rule that passes with the new version and fails with the old one: the
    document equals the new answer. For a new answer without a value, it is `not` of the document,
    or a check that it has no value if the old answer was false.
    """
    ref, value = document_ref(finding.path), finding.new.value
    inputs = _inputs(finding)
    if isinstance(value, Undefined):
        # `not` would hold for a result that is false, too.
        condition = f"not {ref} {inputs}"
        if finding.old.value is False:
            # A comprehension: `_ = ref` holds for false as well, and only for undefined it has no
            # items.
            condition = f"count([1 | _ = {ref} {inputs}]) == 0"
    else:
        condition = f"{ref} == {to_rego(value)} {inputs}"
    name = f"{finding.path}_{finding.kind}_{number}"
    return _rule_of_test(name, finding.cause.text, condition)


def absence_test(finding: Finding) -> str:
    """Return a Rego test rule that fails as long as the finding's document is true for its
    input.
    """
    cause = f"fails as long as this is true: {finding.cause.text}"
    condition = f"not {document_ref(finding.path)} {_inputs(finding)}"
    return _rule_of_test(finding.path, cause, condition)


def _inputs(finding: Finding) -> str:
    """Return the `with` of a test: the finding's input, and the time `NOW_NS` if the document reads
    the clock.
    """
    clock = f" with time.now_ns as {NOW_NS}" if finding.reads_clock else ""
    return f"with input as {to_rego(finding.input)}{clock}"


def _rule_of_test(name: str, comment: str, condition: str) -> str:
    """Return a rule `test_<name>` below a comment; characters of the name other than ASCII letters
    and digits become `_`.
    """
    name = _WORD.sub("_", name).strip("_")
    return f"# {_one_line(comment)}\ntest_{name} if {{\n\t{condition}\n}}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _show(answer: Answer) -> str:
    """Write an answer for users: `undefined`, `an error`, or the value in Rego syntax."""
    if answer.error:
        return "an error"
    return "undefined" if isinstance(answer.value, Undefined) else to_rego(answer.value)


def _document(answer: Answer) -> Any:
    """Return an answer for JSON: `{"result": …}`, `{"error": …}`, or None for undefined."""
    if answer.error:
        return {"error": answer.error}
    return None if isinstance(answer.value, Undefined) else {"result": to_python(answer.value)}
