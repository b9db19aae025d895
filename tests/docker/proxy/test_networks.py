"""With `owners`, what the daemon looks for by name belongs to the caller when it is looked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from examples.docker.private_daemon import Answer, PrivateDaemon
from tests.docker.proxied import proxied


def test_network_of_another_user_is_not_joined(daemon: PrivateDaemon, tmp_path: Path) -> None:
    """A container that does not run knows its networks by name, which may be another's later; and
    where an endpoint has an identifier, the daemon looks for that."""
    users = {"alice": "developer", "bob": "developer"}
    with proxied(daemon, tmp_path, "admin", consumers=users, owners=True) as behind:
        alice, bob = behind.at("alice"), behind.at("bob")

        def create(name: str, network: str, **endpoint: str) -> Answer:
            body = {
                "Image": "img:1",
                "Cmd": ["sleep", "9999"],
                "HostConfig": {"NetworkMode": network},
                "NetworkingConfig": {"EndpointsConfig": {network: endpoint}},
            }
            return alice.json("POST", f"/containers/create?name={name}", body)

        def network_of(user: PrivateDaemon, name: str) -> str:
            answer = user.json("POST", "/networks/create", {"Name": name, "Internal": True})
            assert answer.status == 201, answer

            return str(json.loads(answer.body)["Id"])

        def joined(name: str) -> set[str]:
            answer = daemon.raw("GET", f"/containers/{name}/json")
            networks = json.loads(answer.body)["NetworkSettings"]["Networks"]
            return {each["NetworkID"] for each in networks.values()}

        try:
            own = network_of(alice, "own")
            network_of(alice, "taken")
            assert create("first", "taken").status == 201
            assert create("second", "own").status == 201
            body: dict[str, Any] = {"Container": "second"}
            assert alice.json("POST", "/networks/taken/connect", body).status == 200
            assert alice.raw("DELETE", "/networks/taken").status == 204
            theirs = network_of(bob, "taken")
            for name in ("first", "second"):
                for verb in ("start", "restart"):
                    answer = alice.raw("POST", f"/containers/{name}/{verb}")
                    assert answer.message.endswith(": network taken is not yours")
                assert joined(name) <= {"", own}
            for reference in (theirs, theirs[:12], "taken"):
                answer = create("third", "own", NetworkID=reference)
                assert answer.message.endswith(f": network {reference} is not yours")
                endpoint = {"NetworkID": reference}
                body = {"Container": "second", "EndpointConfig": endpoint}
                answer = alice.json("POST", "/networks/own/connect", body)
                assert answer.message.endswith(f": network {reference} is not yours")
            assert create("third", "own", NetworkID=own).status == 201
            for _ in range(2):
                assert alice.raw("POST", "/containers/third/restart?t=0").status == 204
            assert joined("third") == {own}
        finally:
            for name in ("first", "second", "third"):
                daemon.raw("DELETE", f"/containers/{name}?force=1")
            for name in ("own", "taken"):
                daemon.raw("DELETE", f"/networks/{name}")


def test_containers_of_others_are_not_listed_with_a_network(
    daemon: PrivateDaemon, tmp_path: Path
) -> None:
    users = {"alice": "developer", "bob": "developer"}
    with proxied(daemon, tmp_path, "admin", consumers=users, owners=True) as behind:
        alice, bob = behind.at("alice"), behind.at("bob")
        host = {"NetworkMode": "none"}
        body = {"Image": "img:1", "Cmd": ["sleep", "9999"], "HostConfig": host}
        assert bob.json("POST", "/containers/create?name=theirs", body).status == 201
        try:
            assert bob.raw("POST", "/containers/theirs/start").status == 204
            assert b'"theirs"' in daemon.raw("GET", "/v1.27/networks").body
            for version in ("/v1.24", "/v1.27", "/v1.41", ""):
                answer = alice.raw("GET", f"{version}/networks")
                assert b'"none"' in answer.body
                assert b'"theirs"' not in answer.body
        finally:
            daemon.raw("DELETE", "/containers/theirs?force=1")


def test_pull_does_not_take_the_name_of_another_users_image(
    daemon: PrivateDaemon, tmp_path: Path
) -> None:
    users = {"alice": "developer", "bob": "developer"}
    with proxied(daemon, tmp_path, "admin", consumers=users, owners=True) as behind:
        labels = {"doorward.owner": "socket:bob"}
        body = {"Image": "img:1", "Cmd": ["true"], "Labels": labels}
        assert daemon.json("POST", "/containers/create?name=source", body).status == 201
        try:
            target = "/commit?container=source&repo=theirs&tag=1"
            assert daemon.raw("POST", target).status == 201
            pull = "/images/create?fromImage={}&tag=1"
            answer = behind.at("alice").raw("POST", pull.format("theirs"))
            assert answer.message.endswith(": image theirs:1 is not yours")
            # Nobody's image, and one that is not there: the daemon asks the registry.
            for user, name in (("bob", "theirs"), ("alice", "img"), ("alice", "nowhere")):
                assert behind.at(user).raw("POST", pull.format(name)).status != 403
        finally:
            daemon.raw("DELETE", "/containers/source?force=1")
            daemon.raw("DELETE", "/images/theirs:1")
