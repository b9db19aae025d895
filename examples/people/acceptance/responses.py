"""The same example with decisions on responses: what a guest, an admin and a stranger get back.

The People API is as it was; the sidecar has `responses.yaml` and `response.rego`, and Envoy the
configuration that `doorward envoy bootstrap --responses` prints.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from acceptance.stack import EXAMPLE, Stack, find_program
from acceptance.wire import HOST, Answer, write_request

__all__ = ["RESPONSES", "ResponseRow", "ResponseStack", "check_responses"]

WITHIN: Final = 60.0
"""Seconds for one answer on a busy machine."""


@dataclass(frozen=True, slots=True)
class ResponseRow:
    """A request, and whether its answer is right."""

    name: str
    token: str
    path: str
    status: int
    is_right: Callable[[Any], bool]
    why: str


def _have(*names: str) -> Callable[[Any], bool]:
    fields = set(names)
    return lambda people: bool(people) and all(set(each) == fields for each in people)


RESPONSES: Final = (
    ResponseRow(
        "a guest reads people", "guest", "/people", 200, _have("id", "firstname"),
        "without their last names",
    ),
    ResponseRow(
        "an admin reads people", "admin", "/people", 200, _have("id", "firstname", "lastname"),
        "as the API wrote them",
    ),
    ResponseRow(
        "a guest reads who is not there", "guest", "/people/999999", 403, lambda body: body is None,
        "the API's 404 does not come back",
    ),
)  # fmt: skip


class ResponseStack(Stack):
    """The three parts, with decisions on responses."""

    def _pdp_options(self) -> list[str]:
        options = [each for each in super()._pdp_options() if not each.startswith("--config-file")]
        return [*options, f"--config-file={EXAMPLE / 'responses.yaml'}"]

    def _write_envoy_yaml(self) -> Path:
        command = [
            find_program("doorward"), "envoy", "bootstrap",
            "--listen", f"{HOST}:{self.ports.envoy}", "--upstream", f"{HOST}:{self.ports.people}",
            "--pdp", "unix://doorward.sock", "--responses", "unix://responses.sock",
        ]  # fmt: skip
        written = subprocess.run(command, capture_output=True, check=True, text=True)
        file = self.folder / "envoy.yaml"
        file.write_text(written.stdout)
        return file


def check_responses(
    stack: Stack, tokens: Mapping[str, str]
) -> Iterator[tuple[ResponseRow, Answer, bool]]:
    """Each row with its answer, and whether it holds."""
    for row in RESPONSES:
        headers = (("authorization", f"Bearer {tokens[row.token]}"),)
        answer = stack.send(write_request("GET", row.path, headers), within=WITHIN)
        body = json.loads(answer.body) if answer.body else None
        yield row, answer, answer.status == row.status and row.is_right(body)
