"""For the page of the policies in force: their METADATA, the results of their tests, and the
verdicts on their `never_` rules.

All are computed when a page requests them.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, Final

from doorward.bundles.loader import Loaded
from doorward.console.reasons import short_names
from doorward.pdp.snapshot import Snapshot
from doorward.rego import REGISTRY, Environment, EvalError, Registry, RegoError, to_rego
from doorward.rego.shared import Source, within
from doorward.rego.tools import Annotations, parse_module
from doorward.testing import Result, Suite, run, why
from doorward.testing.properties import property_pages

__all__ = ["notes_of", "run_tests"]

SECONDS: Final = 5.0
"""The seconds for all tests, and again for all properties; the others are left out."""
EACH: Final = 0.5
"""The seconds of one test, after which it ends with an error."""
MOST: Final = 500
"""The most tests of one result; `more` is True if there are others."""
LONGEST: Final = 4_000
"""The characters to which a reason, and a field of METADATA, is cut."""
_FORBIDDEN: Final = frozenset({"http.send", "net.lookup_ip_addr", "opa.runtime"})
_TEXTS: Final = ("title", "description")


def notes_of(text: str, name: str) -> list[dict[str, Any]]:
    """Return the METADATA of a policy's text: row, scope, title and description, and the other
    fields as Rego. [] if there is none or the text is invalid.
    """
    if "METADATA" not in text:
        return []
    try:
        module = parse_module(Source(name, text), annotations=True)
    except RegoError:
        return []
    return [_note(each) for each in module.annotations]


def _note(annotations: Annotations) -> dict[str, Any]:
    """Return one METADATA block as JSON: row and scope, title and description as texts, cut, and
    other fields as Rego.
    """
    fields = annotations.fields
    others = {key: value for key, value in fields.items() if key not in (*_TEXTS, "scope")}
    texts: dict[str, Any] = {each: str(fields[each])[:LONGEST] for each in _TEXTS if each in fields}
    other_fields = {key: _as_rego(value) for key, value in others.items()}
    return {
        "row": annotations.span.row,
        "scope": annotations.scope,
        **texts,
        "others": other_fields,
    }


def _as_rego(value: Any) -> str:
    """Return a value as Rego, cut to `LONGEST` characters; `…` if it cannot be written."""
    try:
        return to_rego(value)[:LONGEST]
    except (RegoError, TypeError):
        return "…"


def run_tests(snapshot: Snapshot) -> dict[str, Any]:
    """Run the first `MOST` tests among the policies in force (`more` is True if there are others),
    each for at most `EACH` seconds, and judge their properties: the tests get `SECONDS` together,
    and the properties as much. Both reach neither network nor environment. `error` says why some
    results are missing.
    """
    policies = snapshot.engine.policies
    names = short_names(policies)
    texts = {names[file]: each.span.source.text for file, each in policies.modules.items()}
    registry = REGISTRY.restricted({each.name for each in REGISTRY} - _FORBIDDEN)
    data = snapshot.engine.data
    results: list[dict[str, Any]] = []
    try:
        with within(SECONDS):
            loaded = Loaded(texts, data if isinstance(data, dict) else {})
            environment = Environment(allow_net=frozenset())
            suite = Suite(loaded, registry=registry, environment=environment)
            for each in run(suite, suite.tests[:MOST], timeout=EACH):
                results.append(_result(suite, each))
    except EvalError:
        return {"tests": results, "error": f"the tests take longer than {SECONDS:g} s"}
    except RegoError as error:
        return {"tests": [], "error": str(error)[:LONGEST]}
    document = {"tests": results, "more": len(suite.tests) > MOST}
    return document | _properties(suite, loaded, registry)


def _properties(suite: Suite, loaded: Loaded, registry: Registry) -> dict[str, Any]:
    """Return `properties`, the verdicts on the `never_` rules for which `SECONDS` suffice; `error`
    says why others are missing.
    """
    verdicts: list[dict[str, Any]] = []
    until = monotonic() + SECONDS
    late = f"the properties take longer than {SECONDS:g} s: use `doorward prove`"
    if not suite.has_properties:
        return {"properties": verdicts}
    try:
        with within(SECONDS):
            for each in property_pages(loaded, registry=registry):
                verdicts.append(each)
                if monotonic() >= until:  # a search ends by itself
                    return {"properties": verdicts, "error": late}
    except EvalError:
        return {"properties": verdicts, "error": late}
    except RegoError as error:
        return {"properties": verdicts, "error": str(error)[:LONGEST]}
    return {"properties": verdicts}


def _result(suite: Suite, result: Result) -> dict[str, Any]:
    """Return the outcome of a test as JSON: `name`, `file`, `row`, `outcome`, and `why`, the reason
    if it did not pass, cut to `LONGEST` characters.
    """
    reason = "" if result.outcome in ("PASS", "SKIPPED") else why(suite, result)
    if result.error is not None:
        reason = str(result.error)
    span = result.test.span
    document = {"name": str(result.test), "file": span.file, "row": span.row}
    return document | {"outcome": result.outcome, "why": reason[:LONGEST]}
