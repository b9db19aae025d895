"""The measured policies and their baselines by hand say the same, or the ratio says nothing."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

from benchmarks.cases import CASES, SECRET, Case, signed_token
from benchmarks.engines import engines

pytestmark = pytest.mark.long

Change = Callable[[Any], object]


def http(value: Any) -> Any:
    return value["attributes"]["request"]["http"]


def token(**claims: object) -> str:
    now = int(time.time())
    return signed_token(
        {"nbf": now - 60, "exp": now + 60, "role": "admin", "sub": "YWxpY2U", **claims}, SECRET
    )


def bearer(value: Any, text: str) -> None:
    http(value)["headers"]["authorization"] = text


PEOPLE: dict[str, Change] = {
    "no header": lambda value: http(value)["headers"].pop("authorization"),
    "one part": lambda value: bearer(value, token()),
    "three parts": lambda value: bearer(value, f"Bearer {token()} x"),
    "not a token": lambda value: bearer(value, "Bearer x.y.z"),
    "wrong signature": lambda value: bearer(value, f"Bearer {token()[:-4]}AAAA"),
    "expired": lambda value: bearer(value, f"Bearer {token(exp=int(time.time()) - 1)}"),
    "not yet": lambda value: bearer(value, f"Bearer {token(nbf=int(time.time()) + 50)}"),
    "guest may not": lambda value: bearer(value, f"Bearer {token(role='guest')}"),
    "own name": lambda value: value["parsed_body"].update(firstname="Alice"),
    "no body": lambda value: value.update(parsed_body={}),
    "other path": lambda value: http(value).update(path="/people/1"),
    "delete": lambda value: http(value).update(method="DELETE"),
}
FORBIDDEN: dict[str, Any] = {
    "Privileged": True,
    "PublishAllPorts": True,
    "OomKillDisable": True,
    "NetworkMode": "container:x",
    "PidMode": "host",
    "IpcMode": "host",
    "UTSMode": "host",
    "UsernsMode": "host",
    "CgroupnsMode": "host",
    "CgroupParent": "x",
    "Memory": 0,
    "MemorySwap": 1 << 40,
    "NanoCpus": 10**12,
    "PidsLimit": 10**6,
    "CapAdd": ["SYS_ADMIN"],
    "SecurityOpt": ["seccomp=unconfined"],
    "Binds": ["/etc/passwd:/x"],
    "Mounts": [{"Type": "bind", "Source": "/", "Target": "/x"}],
    "Devices": [{"PathOnHost": "/dev/sda"}],
    "Sysctls": {"kernel.shm_rmid_forced": "1"},
    "PortBindings": {"22/tcp": [{"HostPort": "22"}]},
}


def host(**fields: Any) -> Change:
    return lambda value: value["body"]["HostConfig"].update(fields)


OTHERS: dict[str, dict[str, Change]] = {
    "rbac": {
        "unknown user": lambda value: value.update(user="nobody"),
        "other action": lambda value: value.update(action="delete"),
    },
    "lookup": {"unknown host": lambda value: value.update(host="elsewhere")},
    "docker": {
        "stranger": lambda value: value.update(user="eve"),
        **{f"host: {field}": host(**{field: bad}) for field, bad in FORBIDDEN.items()},
        "root": lambda value: value["body"].update(User="root"),
        "image": lambda value: value["body"].update(Image="evil/x"),
        "variable": lambda value: value["body"].update(Env=["LD_PRELOAD=x"]),
    },
    "iteration": {
        "privileged": lambda value: value["containers"][3].update(privileged=True),
        "foreign image": lambda value: value["containers"][4].update(image="evil/x"),
        "forbidden mount": lambda value: value["containers"][5]["volumes"][0].update(path="/etc"),
    },
    "text": {
        "other host": lambda value: value.update(host="other.example.com"),
        "dots": lambda value: value.update(path="/v1/tenants/Acme-Corp/../x"),
        "agent": lambda value: value.update(agent="billing/2.4 (windows)"),
    },
}
DENIALS = [
    pytest.param(name, change, id=f"{name}: {label}")
    for name, changes in {"people": PEOPLE, **OTHERS}.items()
    for label, change in changes.items()
]


def baselines(case: Case) -> list[Callable[[Any], object]]:
    return [make() for name, make in engines(case) if name in case.baselines]


@pytest.mark.parametrize("name", CASES)
def test_baselines_give_the_right_answer(name: str) -> None:
    case = CASES[name]()
    assert [baseline(case.input) for baseline in baselines(case)] == [case.expected] * len(
        case.baselines
    )


@pytest.mark.parametrize(("name", "change"), DENIALS)
def test_twins_refuse_what_the_policy_refuses(name: str, change: Change) -> None:
    case = CASES[name]()
    value = copy.deepcopy(case.input)
    change(value)
    refused = "none" if name == "lookup" else False
    assert [baseline(value) for baseline in baselines(case)] == [refused] * len(case.baselines)


@pytest.mark.skipif(find_spec("doorward.rego.engine") is None, reason="no engine yet")
@pytest.mark.parametrize(("name", "change"), DENIALS)
def test_the_engine_refuses_it_too(name: str, change: Change) -> None:
    case = CASES[name]()
    decide = next(make() for label, make in engines(case) if label == "doorward")
    assert decide(case.input) == case.expected
    value = copy.deepcopy(case.input)
    change(value)
    assert decide(value) == ("none" if name == "lookup" else False)
