"""What a row of the acceptance matrix is made of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request and what it must get."""

    group: str = ""
    name: str
    why: str = ""
    method: str = "GET"
    target: str = "/people"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    chunked: bool = False
    pdp: Literal["", "stop", "kill", "start", "freeze", "thaw"] = ""
    """What is done to the decision point before."""
    within: float = 60.0
    """Seconds after which no answer is expected any more."""

    status: int = 403
    arrives: str = ""
    """`METHOD TARGET STATUS` as the application logs it; empty: it is never reached."""
    stores: str = ""
    """The first name of the person that is stored; empty: nobody is."""
    shows: str = ""
    """What the body of the answer holds."""


def person(first: str, last: str = "Rego") -> bytes:
    """The body of a POST."""
    return json.dumps({"firstname": first, "lastname": last}).encode()
