"""The files of a folder from what was gathered, written when all of them are made.

    Gathered + review.yaml of the last run ─make_files─▶ texts by name ─write_files─▶ folder

Names of files are constants: nothing of a log is a part of one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from doorward.base.counting import counted
from doorward.base.os_errors import describe_os_error
from doorward.base.records import record
from doorward.learn.docker import learn_docker
from doorward.learn.docker_data import docker_data
from doorward.learn.docker_review import docker_markdown, docker_yaml, keep_decisions
from doorward.learn.documents import POLICY, POLICY_TEST, Claims, document_of, to_text
from doorward.learn.gathering import Gathered
from doorward.learn.grants import ALLOW, learn
from doorward.learn.observations import LearnError
from doorward.learn.report import markdown
from doorward.learn.review import MAX_FILE, granted, read_rows, review, to_yaml
from doorward.learn.templates import Limits

__all__ = ["Made", "make_files", "write_files"]

REVIEW: Final = "review.yaml"
_TEXTS: Final = {"policy.rego": POLICY, "policy_test.rego": POLICY_TEST}


@record
class Made:
    """The generated files by name, and the numbers of rules and questions in them."""

    files: Mapping[str, str]
    rules: int
    questions: int


def make_files(gathered: Gathered, limits: Limits, folder: Path) -> Made:
    """Return the text of all files for the gathered counts, applying the decisions in the folder's
    review.yaml. Writes nothing, but removes requests of another form from `gathered`.

    Raise LearnError if there are no events, if logs of Docker and services are mixed, or if the
    review is invalid or cannot be read.
    """
    before = _read(folder / REVIEW)
    calls, observations = gathered.calls, gathered.observations
    if calls.events and observations.events:
        raise LearnError(
            "the logs are both of Docker and of services: run `doorward learn` for "
            "each kind, with a folder of its own"
        )
    if calls.events:
        learned_calls = learn_docker(calls, limits)
        keep_decisions(learned_calls, before, str(folder / REVIEW))
        files = {
            "data.json": to_text(docker_data(learned_calls)),
            REVIEW: docker_yaml(learned_calls),
            "learned.md": docker_markdown(learned_calls, calls, limits),
        }
        number = sum([each.is_granted for each in learned_calls.values])
        questions = sum(
            [
                each.proposal != ALLOW and not each.decision and not each.is_covered
                for each in learned_calls.values
            ]
        )
        return Made(files, number, questions)
    if not observations.events:
        raise LearnError(f"the log has no event to learn from: {_reasons(gathered)}")
    form, location = observations.choose_location()
    scalars = frozenset({each for subject in observations.activity for each in subject.scalars})
    claims = Claims(location, form, scalars)
    learned = learn(observations, limits)
    old = read_rows(before, str(folder / REVIEW)) if before else []
    rows = review(learned, old)
    grants, sets = granted(rows)
    files = {
        **_TEXTS,
        "data.json": to_text(document_of(grants, sets, claims)),
        REVIEW: to_yaml(rows),
        "learned.md": markdown(rows, learned, observations, limits),
    }
    questions = sum([each.grant.proposal != ALLOW and not each.decision for each in rows])
    return Made(files, len(grants), questions)


def _reasons(gathered: Gathered) -> str:
    """Return how many lines were not used, by reason, as text; `it is empty` if there are none."""
    skipped = gathered.observations.skipped
    reasons = [f"{reason} ({counted(n, 'line')})" for reason, n in sorted(skipped.items())]
    return ", ".join(reasons) or "it is empty"


def _read(path: Path) -> str:
    """Return the text of an earlier file, cut after `MAX_FILE` + 1 characters, "" if there is none;
    LearnError if it cannot be read.
    """
    try:
        with path.open(encoding="utf-8") as file:
            # One more than allowed, so that `read_yaml` refuses it.
            text = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise LearnError(f"{path}: the file cannot be read: it is not UTF-8") from None
    except OSError as error:
        raise LearnError(f"{path}: the file cannot be read: {describe_os_error(error)}") from None
    return text


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Create the folder and replace the files one by one, each in one step and readable only by
    their owner; the policy comes last. Raise LearnError if a policy file in the folder was changed
    by hand, and then nothing is written; also if a file cannot be written, and then those before it
    are replaced.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in _TEXTS.items():
            path = folder / name
            if name in files and path.exists() and path.read_bytes() != text.encode():
                raise LearnError(
                    f"{path}: the file was changed, or written by another version: "
                    "move rules of your own into another file, and remove this one"
                )
        # Sorted, `data.json` is in place before `policy.rego`, which reads it.
        for name in sorted(files):
            temporary = folder / f".{name}.new"
            temporary.unlink(missing_ok=True)
            # O_EXCL follows no link that somebody else has put there meanwhile.
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(files[name])
            os.replace(temporary, folder / name)
    except OSError as error:
        raise LearnError(
            f"{folder}: the files cannot be written: {describe_os_error(error)}"
        ) from None
