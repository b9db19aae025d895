"""A decision becomes the daemon's reply, and a reason one clean line.

The daemon reads `Allow` and `Msg` of a reply with status 200 and nothing else of it; a text goes to
the client's terminal as it is.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, Final, NamedTuple

from doorward.rego import UNDEFINED, Undefined, Value

__all__ = ["ADMIN", "ALLOWED", "Verdict", "clean", "to_reply", "to_verdict"]

MAX_REASON: Final = 1000
_MAX_MESSAGES: Final = 20
_MAX_NAME: Final = 200
ADMIN: Final = "admin"
"""The rule of those to whom everything is allowed."""


class Verdict(NamedTuple):
    """The plugin's decision on a request, with its reason. `rule` names the rule of a policy, or
    the part of the plugin, that decided.

    `decided` is false where no policy decided.
    """

    allow: bool
    reason: str = ""
    rule: str = ""
    decided: bool = True
    answers: Any = None
    """The part of the daemon's answer that the caller may see, as the policy says it."""


ALLOWED: Final = b'{"Allow":true}'


def to_reply(verdict: Verdict) -> bytes:
    """Return the body of the reply. A denial always has a reason."""
    if verdict.allow:
        return ALLOWED
    return b'{"Allow": false, "Msg": %s}' % _quoted(verdict.reason or "denied by policy").encode()


def to_verdict(result: Value | Undefined) -> Verdict:
    """Return the verdict in a policy's result: a boolean, or an object with `allow` and `messages`.

    The reason of a denial also has the object's `lines`: data that would allow the request. Any
    other result, such as undefined, is a denial with a rule `doorward:…` that names the fault.
    """
    if result is True:
        return Verdict(True)
    if result is False:
        return Verdict(False, "denied by policy")
    if isinstance(result, Undefined):
        return Verdict(False, "policy decision is undefined", "doorward:undefined")
    if type(result) is not dict:
        reason = "policy decision is neither a boolean nor an object with `allow`"
        return Verdict(False, reason, "doorward:result")
    allow: Any = result.get("allow", UNDEFINED)
    if allow is UNDEFINED:
        reason = "policy decision has no `allow`, which must be true or false"
        return Verdict(False, reason, "doorward:result")
    # Rego's 1, "true" or a set are true to many readers. Only `true` opens.
    if type(allow) is not bool:
        return Verdict(False, "`allow` of the policy decision is not a boolean", "doorward:result")
    rule = result.get("rule")
    name = _clean_name(rule) if type(rule) is str else ""
    if allow:
        return Verdict(True, rule=name, answers=result.get("answers"))
    reason = _reason(result.get("messages")) or "denied by policy"
    lines = _reason(result.get("lines"))
    if lines:
        reason = clean(f"{reason} (to allow it, in the data: {lines})")
    return Verdict(False, reason, name)


@lru_cache(maxsize=256)
def _clean_name(rule: str) -> str:
    return clean(rule)[:_MAX_NAME]


def _reason(messages: Any) -> str:
    """Join messages, a string or a list or set of strings, with `; ` to one line; `""` for other
    values. Only the first `_MAX_MESSAGES` are used, a set's in sorted order.
    """
    if isinstance(messages, frozenset):
        messages = sorted(each for each in messages if type(each) is str)
    if type(messages) is str:
        messages = [messages]
    if type(messages) is not list:
        return ""
    texts = [each for each in messages[:_MAX_MESSAGES] if type(each) is str and each]
    return clean("; ".join(texts))


def clean(text: str) -> str:
    """Return `text` as one line of printable characters, cut to `MAX_REASON` bytes."""
    text = text[:MAX_REASON]
    if text.isascii() and text.isprintable():
        if "  " not in text and text[:1] != " " and text[-1:] != " ":
            return text
    else:
        text = "".join([c if _prints(c) else " " for c in text])
    text = " ".join(text.split())
    return text.encode()[:MAX_REASON].decode(errors="ignore")


def _prints(char: str) -> bool:
    # Format characters turn the direction of what follows them on a terminal.
    return char.isprintable() and unicodedata.category(char) not in ("Cf", "Cs", "Co")
