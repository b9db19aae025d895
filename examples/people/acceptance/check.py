"""A row and a running stack become an `Outcome`: the answer, and what about it does not hold."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from acceptance.row import Row
from acceptance.stack import Stack
from acceptance.wire import Answer, write_request

PATIENCE: Final = 60.0
"""Seconds that Envoy has to find a decision point that came back, and a busy machine to decide in
the half second that Envoy waits for it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a row got. It holds when there are no problems."""

    row: Row
    answer: Answer | None
    arrivals: tuple[str, ...]
    problems: tuple[str, ...]


def run_row(stack: Stack, row: Row, tokens: Mapping[str, str]) -> Outcome:
    """Do what the row says to the decision point, send its request, and compare."""
    _prepare(stack, row)
    request = _write(row, tokens)
    arrived, stored = len(stack.arrivals()), len(stack.first_names())
    try:
        answer = _send(stack, row, request)
    except OSError as error:
        return Outcome(row, None, (), (f"no answer: {error}",))
    arrivals = tuple(stack.arrivals()[arrived:])
    names = tuple(stack.first_names()[stored:])
    return Outcome(row, answer, arrivals, tuple(_compare(row, answer, arrivals, names)))


def _prepare(stack: Stack, row: Row) -> None:
    match row.pdp:
        case "stop":
            stack.stop_pdp()
        case "kill":
            stack.kill_pdp()
        case "start":
            stack.start_pdp()
        case "freeze":
            stack.freeze_pdp()
        case "thaw":
            stack.thaw_pdp()
        case "":
            pass


def _write(row: Row, tokens: Mapping[str, str]) -> bytes:
    headers = tuple((name, value.format_map(tokens)) for name, value in row.headers)
    return write_request(row.method, row.target, headers, row.body, chunked=row.chunked)


def _send(stack: Stack, row: Row, request: bytes) -> Answer:
    until = time.monotonic() + PATIENCE
    while True:
        answer = stack.send(request, within=row.within)
        # What was denied for want of time did not reach the application, and is asked again.
        is_late = answer.status == 403 or row.pdp in {"start", "thaw"}
        if answer.status == row.status or not is_late or time.monotonic() > until:
            return answer
        time.sleep(0.1)


def _compare(
    row: Row, answer: Answer, arrivals: tuple[str, ...], names: tuple[str, ...]
) -> list[str]:
    problems = []
    if answer.status != row.status:
        problems.append(f"status {answer.status}, not {row.status}")
    if arrivals != ((row.arrives,) if row.arrives else ()):
        problems.append(f"the application got {list(arrivals)}")
    if names != ((row.stores,) if row.stores else ()):
        problems.append(f"stored {list(names)}")
    if row.shows not in answer.body.decode("utf-8", "replace"):
        problems.append(f"the body does not show `{row.shows}`")
    for name in ("date", "server"):
        if name not in answer.headers:
            problems.append(f"no `{name}` header")
    if answer.headers.get("server") != "envoy":
        problems.append("the server header does not name Envoy")
    problems += _compare_allowed(row, answer) if row.arrives else _compare_denied(row, answer)
    return problems


def _compare_denied(row: Row, answer: Answer) -> list[str]:
    problems = []
    if "x-envoy-upstream-service-time" in answer.headers:
        problems.append("the answer came from behind Envoy")
    if row.status == 403 and (answer.body or answer.headers.get("content-length") != "0"):
        problems.append("the denial is not empty")
    return problems


def _compare_allowed(row: Row, answer: Answer) -> list[str]:
    problems = []
    for name in ("content-type", "x-envoy-upstream-service-time"):
        if name not in answer.headers and row.status != 204:
            problems.append(f"no `{name}` header")
    if row.stores and answer.status == 200:
        person = json.loads(answer.body)
        if set(person) != {"id", "firstname", "lastname"} or not isinstance(person["id"], str):
            problems.append("the answer is not a person with an id")
    return problems
