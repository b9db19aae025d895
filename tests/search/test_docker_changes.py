"""Changes of the Docker policies that only users who are not administrators feel are found."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from time import thread_time
from typing import Any, Final

import pytest
from tests.waiting import PATIENCE

from doorward.bundles.loader import Loaded, load
from doorward.replay.deciding import Version
from doorward.search import Search, search

FOLDER: Final = Path(__file__).resolve().parents[2] / "src/doorward/docker/policies"
ROLES: Final = str(FOLDER / "roles.rego")
DATA: Final[Any] = {
    "users": {
        "alice": ["developer"],
        "bob": ["viewer"],
        "carol": ["admin"],
        "olga": ["operator"],
        "dora": ["developer", "builder"],
    },
    "local_roles": ["viewer"],
    "groups": {"dev": ["developer"]},
}
CHANGES: Final = {
    "a viewer lists secrets": ("viewer_actions := {\n", 'viewer_actions := {\n\t"secret.list",\n'),
    "a developer prunes volumes": ('"volume.delete",\n', '"volume.delete", "volume.prune",\n'),
    "a developer pushes": ('"image.pull",', '"image.pull", "image.push",'),
    "a builder tags": (
        '"build.session", "image.build"}',
        '"build.session", "image.build", "image.tag"}',
    ),
    "an operator installs plugins": ('"secret.list",\n', '"secret.list", "plugin.pull",\n'),
    "a viewer reads no logs": ('"container.logs", ', ""),
    "a viewer does not see the system": ('"system.info", ', ""),
    "a developer starts no command": ('"container.exec",', ""),
    "an operator deletes no secret": ('"secret.delete", ', ""),
    "an operator prunes no volumes": (', "volume.prune",', ","),
    "a local user while the daemon listens": ("\tcount(input.open_listeners) == 0\n", ""),
    "a group that nobody verified": ('\tinput.AuthMethod == "peer"\n', ""),
    "a name that nobody verified": (
        "held contains role if {\n\tinput.identified == true\n\tsome role in data.docker.users",
        "held contains role if {\n\tsome role in data.docker.users",
    ),
}
ALIKE: Final = {
    "a developer prunes volumes",
    "a developer pushes",
    "a viewer does not see the system",
    "a developer starts no command",
    "an operator prunes no volumes",
    "a local user while the daemon listens",
    "a group that nobody verified",
    "a name that nobody verified",
}
"""Of each kind of change others stay in `make test`."""
SECONDS: Final = PATIENCE
"""More than any takes, also where a second of CPU does a fifth of what it does elsewhere."""


@pytest.fixture(scope="module")
def policies() -> Loaded:
    loaded = load([str(FOLDER)])
    data: Any = copy.deepcopy(loaded.data)
    data["docker"] |= DATA
    return replace(loaded, data=data)


@pytest.fixture(scope="module")
def unchanged(policies: Loaded) -> Version:
    return Version.compile(policies, deadline=PATIENCE)


def find(policies: Loaded, unchanged: Version, old: str, new: str) -> Search:
    text = Path(ROLES).read_text(encoding="utf-8")
    assert text.count(old) == 1
    modules: dict[str, Any] = {**policies.modules, ROLES: text.replace(old, new)}
    return search(
        unchanged,
        Version.compile(replace(policies, modules=modules), deadline=PATIENCE),
        ["policy/docker/authz/allow"],
        seconds=SECONDS,
        is_enough=lambda result: any(_is_of_somebody(each.kind) for each in result.findings),
        clock=thread_time,
    )


def _is_of_somebody(kind: str) -> bool:
    return kind in ("new-allow", "new-deny")


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=pytest.mark.soak if each in ALIKE else ()) for each in CHANGES],
)
def test_a_change_of_a_role_is_found(policies: Loaded, unchanged: Version, name: str) -> None:
    result = find(policies, unchanged, *CHANGES[name])
    assert any(_is_of_somebody(each.kind) for each in result.findings)
