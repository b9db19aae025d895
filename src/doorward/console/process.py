"""The decisions and state of one process, as answers to the questions of pages.

A page is about all processes of a decision point: the one that it reaches sends the same question
to the others, and merges the answers (`together`). Questions and answers are JSON.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from doorward.console import views
from doorward.console.audit_tail import AuditTail
from doorward.console.differences import compare
from doorward.console.pasted import PastedError, read_pasted
from doorward.console.policy_texts import run_tests
from doorward.console.ring import Ring
from doorward.console.selection import Filter, select
from doorward.console.sessions import Sessions
from doorward.console.traffic import Traffic
from doorward.pdp.pdp import PDP
from doorward.rego import to_python
from doorward.telemetry.health import Health

__all__ = ["Process"]


class Process:
    """Answers the console's questions about one process; thread-safe. Without a decision point
    (`pdp`, `ring` None) most answers are None.
    """

    def __init__(
        self,
        pdp: PDP | None,
        ring: Ring | None,
        health: Health | None,
        *,
        number: int = 0,
        traffic: Traffic | None = None,
        shadow: Callable[[], dict[str, Any]] | None = None,
        docker: AuditTail | None = None,
        status: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        """Take the parts of this process that the console shows, None for each that it lacks.
        `number`: that of this worker, 0 if it is the only one. `status` returns the document of the
        status API.
        """
        self.pdp = pdp
        self.ring = ring
        self.docker = docker
        self.shadow = shadow
        self._health = health
        self._number = number
        self._traffic = traffic
        self._status = status
        self.sessions = Sessions()
        self._since_ms = time.time_ns() // 1_000_000

    def answer(self, question: Mapping[str, Any]) -> Any:
        """Return the answer to a question, whose kind is in `about` and whose other fields depend
        on it. None if this process knows nothing about it, lacks the part that would, or does not
        know the kind.
        """
        match question["about"]:
            case "decisions":
                after: list[int] = question["after"]
                return self.decisions(
                    after[self._number],
                    question["docker"],
                    question["most"],
                    Filter(**question["filter"]) if "filter" in question else None,
                )
            case "search":
                return self.search(question)
            case "decision":
                return self.decision(question["id"])
            case "change":
                entry = None if self.ring is None else self.ring.get(question["id"])
                return None if entry is None else views.change_of(entry)
            case "versions":
                return [] if self.ring is None else views.versions(self.ring)
            case "revisions":
                return [] if self.ring is None else self.ring.revisions()
            case "policies":
                if self._traffic is None or self.pdp is None:
                    return None
                return self._traffic.counts(self.pdp.snapshot)
            case "shadow":
                return None if self.shadow is None else self.shadow()
            case "session":
                return self.sessions.token(question["digest"])
            case "end session":
                return self.sessions.end(question["digest"])
            case "state":
                return self.state()
        return None

    def decisions(
        self, after: int, docker: int, most: int, filter: Filter | None = None
    ) -> dict[str, Any]:
        """Return the newest `most` decisions after the number `after` that match the filter, those
        of the Docker plugin after `docker`, and counts by second. There must be a decision point.
        """
        assert self.ring is not None
        matches = None if filter is None else filter.matcher()
        document = views.batch(self.ring, after, most, matches)
        if self.docker is not None:
            lines, document["docker_last"] = self.docker.after(docker, most)
            document["docker"] = [each for each in lines if matches is None or matches(each)]
        return document

    def search(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return one page of the kept decisions that match a filter, with counts and groups; None
        without a decision point.
        """
        if self.ring is None:
            return None
        before = question.get("before")
        return select(
            self.ring.newest(),
            () if self.docker is None else self.docker.after(0, 1_000)[0],
            Filter(**question["filter"]),
            worker=self._number,
            before=None if before is None else (before[0], before[1], before[2]),
            most=question["most"],
            group=question["group"],
        )

    def try_text(self, text: str, path: str, user: str, *, changes: bool) -> dict[str, Any]:
        """Return the decision on a pasted request by the document at `path`, explained; `user` is
        the caller of a command of `docker`, and `changes` adds the smallest change of the input
        that would be allowed. PastedError if the text cannot be read, if no kept decision is about
        `path` (only documents that clients have read may be evaluated here), or if this process
        makes no decisions.
        """
        if self.pdp is None or self.ring is None:
            raise PastedError(
                "this process makes no decisions: try the input in the console of "
                "the process that makes them"
            )
        if not self.ring.has_path(path):
            raise PastedError(
                "no recent decision is about this document: only documents that clients have asked "
                "for can be tried"
            )
        return views.try_input(self.pdp, path, read_pasted(text, user), changes=changes)

    def tests(self) -> dict[str, Any] | None:
        """Run the tests among the policies in force and return their results; None without a
        decision point.
        """
        return None if self.pdp is None else run_tests(self.pdp.snapshot)

    def compare(self, revision: str) -> dict[str, Any] | None:
        """Return the changes from an earlier revision to the policies in force, in texts and
        decisions; None if the revision is no longer kept, or without a decision point.
        """
        ring, pdp = self.ring, self.pdp
        versions = [] if ring is None else ring.versions()
        old = next((each for each in versions if each.revision == revision), None)
        if ring is None or pdp is None or old is None:
            return None
        return compare(old, pdp.snapshot, ring.newest())

    def decision(self, decision_id: str) -> dict[str, Any] | None:
        """Return all of one decision, of this process (explained, which takes time) or of the
        Docker plugin; None if it is not kept.
        """
        entry = self.ring.get(decision_id) if self.ring is not None else None
        if entry is not None:
            return views.detail(entry)
        return None if self.docker is None else self.docker.get(decision_id)

    def state(self) -> dict[str, Any]:
        """Return the state of this process: its number, start and policies, the health of parts,
        threads and bundles, caches, and the decisions of the last minute. What a process without a
        decision point lacks is None, 0 or empty.
        """
        health, pdp, ring = self._health, self.pdp, self.ring
        status = {} if self._status is None else self._status()
        return {
            "worker": self._number,
            "revision": pdp.snapshot.revision if pdp is not None else "",
            "policies": 0 if pdp is None else len(pdp.snapshot.engine.policies.modules),
            "since_ms": self._since_ms,
            "kept": None if ring is None else ring.kept,
            "bundles": to_python(pdp.snapshot.bundles) if pdp is not None else {},
            "parts": {} if health is None else {k: v.value for k, v in health.states.items()},
            "threads": {} if health is None else health.parts.problems,
            # The page shows its own numbers; those of the process are for scrapers.
            "status": {k: v for k, v in status.items() if k != "metrics"},
            "caches": {} if pdp is None else _caches(pdp),
            "minute": None if ring is None else views.minute(ring),
        }


def _caches(pdp: PDP) -> dict[str, Any]:
    counts = pdp.snapshot.cache_counts()
    return {name: each._asdict() for name, each in sorted(counts.items())}
