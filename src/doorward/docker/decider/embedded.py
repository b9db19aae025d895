"""The engine in the plugin's own process: a folder of policies and data that reloads itself.

Whatever fails in an evaluation is a PdpError, as it is when a decision point elsewhere fails.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from doorward.bundles.sources import Sources
from doorward.docker.decider.answer import Answer, PdpError
from doorward.docker.decider.remote import DEADLINE
from doorward.pdp.pdp import PDP
from doorward.pdp.reload import Watcher
from doorward.pdp.snapshot import Settings, Snapshot, document_ref, read
from doorward.rego import RegoError
from doorward.telemetry.health import Health

__all__ = ["DECISION", "PACK", "EmbeddedPdp", "shipped_policies", "with_shipped"]

DECISION: Final = "policy/docker/authz"
"""The document that decides, as in the decision URL's path."""
PACK: Final = Path(__file__).parents[1] / "policies"
"""The policies that are shipped."""
_IGNORED: Final = ("*_test.rego",)
_log: Final = logging.getLogger(__name__)


def shipped_policies() -> list[Path]:
    """Return the paths of the package's policies, without their data and tests."""
    return sorted(path for path in PACK.glob("*.rego") if not path.stem.endswith("_test"))


def with_shipped(data: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of the package's policies, then those in `data`: data and further
    policies.
    """
    return (*map(str, shipped_policies()), *data)


class EmbeddedPdp:
    """Decides in this process, by the policies and data at `paths`."""

    def __init__(
        self,
        paths: Sequence[str] = (str(PACK),),
        *,
        path: str = DECISION,
        deadline: float = DEADLINE,
        watch: bool = True,
        shows_answers: bool = False,
    ) -> None:
        """Load the policies and data at `paths`; reload them when they change if `watch` is True.

        `path` is the path of the decision and `deadline` its limit in seconds. `shows_answers`: the
        member `answers` is evaluated too. Raise LoadError or RegoError if they cannot be loaded.
        """
        self._paths = tuple(paths)
        self._path = path
        self._members = ("allow", "rule", *(("answers",) if shows_answers else ()))
        self._question = ""
        """The query for the members that matter if a request is allowed; "" if the policies do not
        define all of them as rules."""
        self._settings = Settings(deadline=deadline)
        self._pdp = PDP(self._read())
        self.health = Health()
        sources = Sources(self._paths, ignore=_IGNORED)
        self._watcher = Watcher(
            sources.files,
            lambda: self._read(self._pdp.snapshot),
            self._pdp.replace,
            health=self.health,
            building=self._pdp.build_gate.building,
            roots=sources.roots,
        )
        if watch:
            self._watcher.start()

    @property
    def revision(self) -> str:
        """The revision of the policies and data that decide now."""
        return self._pdp.snapshot.revision

    def _read(self, before: Snapshot | None = None) -> Snapshot:
        """Read the policies and data, generate the code of the decision, set `_question`, and
        return the snapshot. A decision that does not exist is a warning in the log. Unchanged
        modules of the snapshot `before` are used again. Raise LoadError or RegoError if they cannot
        be loaded.
        """
        snapshot = read(self._paths, ignore=_IGNORED, settings=self._settings, before=before)
        if snapshot.is_nowhere(self._path):
            # Not an error: the files may come later, and a daemon without its plugin denies
            # everything as well.
            _log.warning(
                "No request can be decided: the policies have no document at the path of the "
                "decision. Check --policy and --decision.",
                extra={"decision": self._path, "policies": list(self._paths)},
            )
        # While nobody waits: the first request after a reload would pay for the code otherwise.
        snapshot.warm([self._path])
        self._question = self._ask_for_members(snapshot)
        return snapshot

    def _ask_for_members(self, snapshot: Snapshot) -> str:
        """Return a query for the members that matter if a request is allowed, and compile it. `""`
        if the policies do not define all of them as rules or the query cannot be compiled; then the
        complete document is evaluated.
        """
        if not all(snapshot.has_rule_at(f"{self._path}/{name}") for name in self._members):
            return ""
        document = document_ref(self._path)
        text = ", ".join([f'"{name}": {document}.{name}' for name in self._members])
        question = f"{{{text}}}"
        try:
            snapshot.query(question).warm()
        except RegoError:
            return ""  # the document is a value without members
        return question

    def decide(self, input: Any) -> Answer:
        """Return the decision on `input`. Raise PdpError if the evaluation fails.

        The result of an allowed request has only the members `allow`, `rule` and, with
        `shows_answers`, `answers`, if the policies define these as rules. Otherwise it is the
        complete document, UNDEFINED if the policies do not define it.
        """
        if self._question:
            # The reasons of a denial take as long as the decision: most requests are allowed.
            decision = self._pdp.decide_query(self._question, input, is_parsed=True)
            result = decision.result
            # Any other outcome is evaluated in full: a denial needs its reasons, an error its text.
            if decision.error is None and type(result) is dict and result["allow"] is True:
                return Answer(result, decision.decision_id)
        decision = self._pdp.decide(self._path, input, is_parsed=True)
        if decision.error is not None:
            raise PdpError(f"policy failed: {_code_of(decision.error)}")
        return Answer(decision.result, decision.decision_id)

    def setting(self, name: str) -> Any:
        """Return the current value of a setting, from the data below `docker`; UNDEFINED if it is
        missing or cannot be evaluated.
        """
        return self._pdp.decide(f"docker/{name}").result

    def close(self) -> None:
        self._watcher.close()
        self._pdp.close()


def _code_of(error: Exception) -> str:
    """Return the code of a policy's error, or `internal error` for another one, to be shown in
    place of its text, which may quote the input.
    """
    if isinstance(error, RegoError) and error.diagnostics:
        return error.diagnostics[0].code
    return "internal error"
