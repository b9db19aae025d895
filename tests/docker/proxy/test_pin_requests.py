"""Requests beside pins are decided by the policies of today and the groups of today."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.docker.guarded import write_policies

from doorward.docker.decider.embedded import EmbeddedPdp
from doorward.docker.plugin import PluginOptions
from doorward.docker.proxy.pin_requests import LONGEST, PinJudge, to_pinned_request
from doorward.docker.request.call import AuthzRequest, Caller
from doorward.docker.request.host import HostFacts
from doorward.docker.request.input import begin_input

NAME = pwd.getpwuid(os.getuid()).pw_name
ANN = Caller(NAME, "peer", ("staff",), os.getuid())


def request(folder: Path, caller: Caller | None = ANN, **body: Any) -> Any:
    content = {"Image": "img:1", "Env": ["A=secret"], "HostConfig": {"Binds": [f"{folder}:/v"]}}
    text = json.dumps({**content, **body}).encode()
    name = "" if caller is None else caller.name
    whole = AuthzRequest("POST", "/v1.41/containers/create?name=c", name, "peer", {}, text)
    return to_pinned_request(begin_input(whole._replace(caller=caller)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("f") / "allowed" / "a"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[PinJudge]:
    home = tmp_path_factory.mktemp("j")
    users = {NAME: ["developer"], "socket:ci": ["developer"]}
    policies = write_policies(home / "p", allow=str(folder.parent), users=users)
    pdp = EmbeddedPdp([str(policies)], watch=False)
    host = HostFacts(config=str(home / "none"), pidfile=str(home / "none"))
    yield PinJudge(pdp, PluginOptions(), host, None)
    pdp.close()


def test_request_that_is_allowed_now(judge: PinJudge, folder: Path) -> None:
    document = request(folder)
    assert judge.why_refused(json.loads(json.dumps(document))) == ""
    assert "secret" not in json.dumps(document)


def test_request_of_a_consumer(judge: PinJudge, folder: Path) -> None:
    assert judge.why_refused(request(folder, Caller("socket:ci", "socket"))) == ""
    assert "may not" in judge.why_refused(request(folder, Caller("socket:other", "socket")))


def test_folder_that_nobody_may_mount_any_more(judge: PinJudge, tmp_path: Path) -> None:
    assert "may not be mounted" in judge.why_refused(request(tmp_path))


def test_user_whose_number_is_anothers_now(judge: PinJudge, folder: Path) -> None:
    other = request(folder, ANN._replace(name="nobody-of-this-name"))
    assert "belongs to another user now" in judge.why_refused(other)


@pytest.mark.parametrize("field", ["path", "user", "method", "uid", "body"])
def test_request_that_cannot_be_read_is_refused(judge: PinJudge, folder: Path, field: str) -> None:
    whole = request(folder)
    values: list[Any] = [None, [], {}]
    for wrong in values:
        assert judge.why_refused({**whole, field: wrong}) != ""
    del whole[field]
    assert judge.why_refused(whole) == "the request that is stored with the pin cannot be read"


def test_what_is_too_long_or_nobodys_is_not_remembered(folder: Path) -> None:
    assert request(folder, None) is None
    assert request(folder, Labels={"a": "x" * LONGEST}) is None
    assert request(folder, Env=["A=" + "x" * LONGEST]) is not None
