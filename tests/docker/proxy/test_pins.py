"""What was judged is what is mounted, whatever becomes of the path until the container starts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.proxied import Proxied, proxied
from tests.docker.proxy.fake_daemon import fake_daemon
from tests.docker.proxy.test_forwarding import Behind as Forwarding
from tests.docker.proxy.test_labels import draft_of

from doorward.docker.proxy.pins import PinError, Pins

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
NONE = ("--network", "none")


@pytest.fixture
def pins(tmp_path: Path) -> Iterator[Pins]:
    pins = Pins(str(tmp_path / "pins"), str(tmp_path / "state.json"))
    yield pins
    unmount(tmp_path / "pins")


def unmount(folder: Path) -> None:
    for each in folder.iterdir():
        subprocess.run(["umount", "-l", str(each)], check=False, capture_output=True)


def test_pin_is_the_folder_and_not_its_path(pins: Pins, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "f").write_text("judged")
    pin = Path(pins.pin(str(folder)))
    folder.rename(tmp_path / "b")
    folder.symlink_to("/etc")
    assert (pin / "f").read_text() == "judged"
    assert not (pin / "passwd").exists()
    with pytest.raises(PinError, match="now leads through a symbolic link"):
        pins.pin(str(folder))


def test_pin_of_a_file_and_of_what_is_not_there(pins: Pins, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("content")
    assert Path(pins.pin(str(tmp_path / "f"))).read_text() == "content"
    with pytest.raises(PinError, match="does not exist: create it first"):
        pins.pin(str(tmp_path / "none"))


@pytest.mark.parametrize("content", ["[]", "null", "1", "{", "\xff", "[" * 100_000])
def test_state_that_is_not_an_object_is_an_error(content: str, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(PinError, match="remove the file to start without the pinned folders"):
        Pins(str(tmp_path / "pins"), str(tmp_path / "state.json"))


@pytest.mark.parametrize("pin", [1, None, [], "a", "/a\0b", "/\ud800", {"path": 1}, {}])
def test_stored_pins_without_a_path_are_dropped(pin: object, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    stored = {"0" * 16: {"path": str(tmp_path / "a"), "requests": [1, {}]}, "1" * 16: pin}
    (tmp_path / "state.json").write_text(json.dumps(stored))
    Pins(str(tmp_path / "pins"), str(tmp_path / "state.json"))
    points = [each.name for each in (tmp_path / "pins").iterdir()]
    unmount(tmp_path / "pins")
    assert points == ["0" * 16]


def test_pins_that_cannot_be_stored_are_an_error(pins: Pins, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "state.new").mkdir()
    with pytest.raises(PinError, match=r"state\.json cannot be written: is a directory"):
        pins.pin(str(tmp_path / "a"))
    assert list((tmp_path / "pins").iterdir()) == []
    (tmp_path / "state.new").rmdir()
    pinned = pins.pin(str(tmp_path / "a"))
    assert list(json.loads((tmp_path / "state.json").read_text())) == [Path(pinned).name]


def test_a_request_that_cannot_be_stored_is_an_error_each_time(pins: Pins, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    pins.pin(str(tmp_path / "a"))
    (tmp_path / "state.new").mkdir()
    for _ in range(2):
        with pytest.raises(PinError, match="cannot be written"):
            pins.pin(str(tmp_path / "a"), {"user": "ann"})


def test_same_folder_is_pinned_once(pins: Pins, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    first = pins.pin(str(tmp_path / "a"))
    assert pins.pin(str(tmp_path / "a")) == first
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "a").mkdir()
    assert pins.pin(str(tmp_path / "a")) != first


def test_answers_have_the_path_in_place_of_the_pin(pins: Pins, tmp_path: Path) -> None:
    (tmp_path / 'a"b').mkdir()
    pin = pins.pin(str(tmp_path / 'a"b'))
    document = {"Source": pin, "Other": f"{pins.folder}/{'0' * 16}"}
    translated = json.loads(pins.translate(json.dumps(document).encode()))
    assert translated == {**document, "Source": str(tmp_path / 'a"b')}


def test_pins_are_made_again_after_a_restart_of_the_host(pins: Pins, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    points = {name: Path(pins.pin(str(tmp_path / name))) for name in ("a", "b", "c")}
    unmount(tmp_path / "pins")
    (tmp_path / "b").rename(tmp_path / "moved")
    (tmp_path / "c").rename(tmp_path / "gone")
    (tmp_path / "c").symlink_to("/etc")
    again = Pins(str(tmp_path / "pins"), str(tmp_path / "state.json"))
    assert (points["a"] / "a").exists()
    assert not points["b"].exists()
    assert not points["c"].exists()
    assert again.pin(str(tmp_path / "a")) == str(points["a"])


def test_unused_pins_are_let_go_of_when_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents: list[bytes | None] = [None]
    pins = Pins(str(tmp_path / "pins"), str(tmp_path / "state.json"), lambda: documents[0])
    monkeypatch.setattr("doorward.docker.proxy.pins.MOST_PINS", 2)
    try:
        for name in "abcd":
            (tmp_path / name).mkdir()
        used, unused = pins.pin(str(tmp_path / "a")), pins.pin(str(tmp_path / "b"))
        for each in (None, used.encode()):  # the daemon is away; both are new
            documents[0] = each
            with pytest.raises(PinError, match="host folders are pinned for containers already"):
                pins.pin(str(tmp_path / "c"))
        monkeypatch.setattr("doorward.docker.proxy.pins.NEW", -1.0)
        pins.pin(str(tmp_path / "c"))
        assert Path(used).exists()
        assert not Path(unused).exists()
        # The file has no pin that is not mounted, though another cannot be made.
        documents[0] = b""
        with pytest.raises(PinError):
            pins.pin(str(tmp_path / "missing"))
        monkeypatch.setattr("doorward.docker.proxy.pins._mount_on", refuse_mount)
        with pytest.raises(PinError, match="no mount"):
            pins.pin(str(tmp_path / "d"))
        assert json.loads((tmp_path / "state.json").read_text()) == {}
    finally:
        unmount(tmp_path / "pins")


def refuse_mount(*_: object) -> None:
    raise PinError("no mount")


def test_pin_is_made_again_where_one_who_asked_for_it_may_have_it(tmp_path: Path) -> None:
    folder, state = str(tmp_path / "pins"), str(tmp_path / "state.json")
    (tmp_path / "a").mkdir()
    ann, bob = {"user": "ann"}, {"user": "bob"}
    pins = Pins(folder, state)
    point = Path(pins.pin(str(tmp_path / "a"), ann))
    pins.pin(str(tmp_path / "a"), bob)
    judged: list[Any] = []
    try:
        for allowed, is_mounted in (("bob", True), ("carol", False), ("ann", True)):
            unmount(tmp_path / "pins")

            def why_refused(request: Any, allowed: str = allowed) -> str:
                judged.append(request)
                return "" if request["user"] == allowed else "user may not"

            Pins(folder, state, why_refused=why_refused)
            assert point.exists() is is_mounted
        assert judged == [ann, bob] * 3
    finally:
        unmount(tmp_path / "pins")


@pytest.mark.parametrize(
    "document", ['"{}"', '{{"path": "{}"}}', '{{"path": "{}", "requests": 1}}']
)
def test_pin_that_nobody_is_known_for_is_not_made_again(tmp_path: Path, document: str) -> None:
    (tmp_path / "a").mkdir()
    name = "0" * 16
    text = document.format(tmp_path / "a")
    (tmp_path / "state.json").write_text(f'{{"{name}": {text}}}')
    folder, state = str(tmp_path / "pins"), str(tmp_path / "state.json")
    Pins(folder, state, why_refused=lambda _request: "")
    assert not (tmp_path / "pins" / name).exists()


def test_requests_beside_a_pin_are_bounded(pins: Pins, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for number in range(20):
        pins.pin(str(tmp_path / "a"), {"user": str(number % 10)})
    (pin,) = json.loads((tmp_path / "state.json").read_text()).values()
    assert [each["user"] for each in pin["requests"]] == ["0", "1", "2", "3"]


def test_state_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(PinError, match="remove the file to start without the pinned folders"):
        Pins(str(tmp_path / "pins"), str(tmp_path / "state.json"))


DEVICE = {"type": "none", "o": "bind", "device": "/src"}
PINNED_DEVICE = {**DEVICE, "device": "PIN"}


def volume(options: dict[str, str]) -> dict[str, Any]:
    driver = {"Name": "local", "Options": options}
    return {"Type": "volume", "Target": "/v", "VolumeOptions": {"DriverConfig": driver}}


def bind(**more: Any) -> dict[str, Any]:
    return {"Type": "bind", "Source": "PIN", "Target": "/v", **more}


FOLDERS: list[tuple[str, Any, Any]] = [
    ("/v1.41", {"Binds": ["/src:/v"]}, {"Binds": [], "Mounts": [bind()]}),
    ("", {"Binds": ["/src:/v:rw"]}, {"Binds": [], "Mounts": [bind()]}),
    (
        "/v1.25",
        {"Binds": ["/src:/v:ro,rshared"], "Memory": 1},
        {
            "Binds": [],
            "Mounts": [bind(ReadOnly=True, BindOptions={"Propagation": "rshared"})],
            "Memory": 1,
        },
    ),
    ("/v1.24", {"Binds": ["/src:/v:ro"]}, {"Binds": ["PIN:/v:ro"]}),
    ("/v1.41", {"Binds": ["/src:/v:z"]}, {"Binds": ["PIN:/v:z"]}),
    (
        "/v1.41",
        {"Binds": ["name:/v", "/src:/w"]},
        {"Binds": ["name:/v"], "Mounts": [bind(Target="/w")]},
    ),
    (
        "/v1.41",
        {"Mounts": [bind(Source="/src", ReadOnly=True), volume(DEVICE), None]},
        {"Mounts": [bind(ReadOnly=True), volume(PINNED_DEVICE), None]},
    ),
    (
        "/v1.41",
        {"Mounts": [{"Type": "tmpfs", "Target": "/v"}, {"Type": "volume"}, volume({"o": "x"})]},
        {"Mounts": [{"Type": "tmpfs", "Target": "/v"}, {"Type": "volume"}, volume({"o": "x"})]},
    ),
    (
        "/v1.41",
        {"Binds": ["/src:/v"], "Mounts": [bind(Source="/src")]},
        {"Binds": [], "Mounts": [bind(), bind()]},
    ),
    ("/v1.41", {"Binds": None, "Mounts": []}, {"Binds": None, "Mounts": []}),
    ("/v1.41", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("version", "host", "expected"), FOLDERS)
def test_every_folder_of_a_container_is_replaced_by_its_pin(
    pins: Pins, tmp_path: Path, version: str, host: Any, expected: Any
) -> None:
    (tmp_path / "a").mkdir()
    draft = draft_of(f"{version}/containers/create", {"Image": "x", "HostConfig": host})
    replaced = pins.replace(draft, {"/src": str(tmp_path / "a")}).body
    point = pins.pin(str(tmp_path / "a"))
    assert replaced == {
        "Image": "x",
        "HostConfig": json.loads(json.dumps(expected).replace("PIN", point)),
    }
    if host and "/src" in json.dumps(host):
        with pytest.raises(PinError, match="host path /src was not"):
            pins.replace(draft, {})


@pytest.mark.parametrize("options", [DEVICE, {"device": "tmpfs"}, {}, None])
def test_folder_of_a_volume_is_replaced_by_its_pin(
    pins: Pins, tmp_path: Path, options: Any
) -> None:
    (tmp_path / "a").mkdir()
    draft = draft_of("/v1.41/volumes/create", {"Name": "v", "DriverOpts": options})
    replaced = pins.replace(draft, {"/src": str(tmp_path / "a")}).body
    device = pins.pin(str(tmp_path / "a"))
    assert replaced == {
        "Name": "v",
        "DriverOpts": {**DEVICE, "device": device} if options is DEVICE else options,
    }


def test_request_without_folders_stays_as_it_is(pins: Pins) -> None:
    for draft in (draft_of("/v1.41/containers/create", {}), draft_of("/v1.41/build", None)):
        assert pins.replace(draft, {}) is draft


@pytest.mark.parametrize(
    ("name", "path"), [("../../x", "/"), ("0" * 15, "/"), ("0" * 16, "a"), ("0" * 16, 7)]
)
def test_stored_pin_of_another_form_is_passed_over(tmp_path: Path, name: str, path: Any) -> None:
    state = tmp_path / "state.json"
    state.write_text(json.dumps({name: {"path": path, "requests": []}}))
    Pins(str(tmp_path / "pins"), str(state))
    assert list((tmp_path / "pins").iterdir()) == []
    assert not (tmp_path / "pins" / name).exists()


def test_state_is_written_into_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    state = tmp_path / "new" / "one" / "state.json"
    pins = Pins(str(tmp_path / "pins"), str(state))
    try:
        for each in (tmp_path, tmp_path / "a"):
            pins.pin(str(each))
        assert len(json.loads(state.read_text())) == 2
    finally:
        unmount(tmp_path / "pins")


@pytest.fixture
def forwarded(tmp_path: Path) -> Iterator[Forwarding]:
    """A proxy with pins, in front of a daemon that only remembers."""
    mounts = {
        "allow": [str(tmp_path / "allowed")],
        "nfs": [],
        "volume_drivers": ["local"],
        "volumes_from": False,
    }
    (tmp_path / "allowed" / "a").mkdir(parents=True)
    users = {"root": ["operator"], "socket:v": ["viewer"]}
    with fake_daemon(tmp_path / "d.sock") as daemon:
        proxy = Forwarding(
            tmp_path,
            daemon,
            options={"pins": str(tmp_path / "pins"), "pins_state": str(tmp_path / "state.json")},
            users=users,
            mounts=mounts,
        )
        yield proxy
        proxy.service.close()
    unmount(tmp_path / "pins")


def test_daemon_gets_pins_and_its_client_sees_paths(forwarded: Forwarding, tmp_path: Path) -> None:
    folder = str(tmp_path / "allowed" / "a")
    named = {"Type": "volume", "Source": "name", "Target": "/t"}
    body = {"Image": "x", "HostConfig": {"Binds": [f"{folder}:/v"], "Mounts": [named]}}
    create = "POST /v1.41/containers/create\r\nContent-Type: application/json\r\n"
    status, answer = forwarded.ask(create, json.dumps(body).encode())
    assert status == 200, answer
    _, _, content = forwarded.daemon.content.partition(b"\r\n\r\n")
    mount, other = json.loads(content)["HostConfig"]["Mounts"]
    assert mount["Source"].startswith(f"{tmp_path}/pins/")
    assert other == named
    document = {"Env": ["A=secret"], "Mounts": [mount]}
    forwarded.daemon.answer = response(document)
    inspect = "GET /v1.41/containers/c/json\r\n"
    seen = json.loads(forwarded.ask(inspect)[1])
    assert seen["Mounts"] == [{**mount, "Source": folder}]
    masked = json.loads(forwarded.ask(inspect, viewer=True)[1])
    assert masked == {"Env": ["A=***"], "Mounts": [{**mount, "Source": folder}]}
    # What is not about containers or volumes is a stream, and passes as it comes.
    assert json.loads(forwarded.ask("GET /v1.41/version\r\n")[1]) == document
    forwarded.daemon.received.clear()
    gone = {"HostConfig": {"Binds": [f"{folder}/none:/v"]}}
    status, answer = forwarded.ask(create, json.dumps(gone).encode())
    assert (status, forwarded.daemon.content) == (403, b"")
    assert b"does not exist: create it first" in answer


def response(document: Any) -> bytes:
    content = json.dumps(document).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content)


@pytest.fixture
def allowed(daemon: PrivateDaemon) -> Path:
    folder = daemon.folder / "allowed"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def behind(daemon: PrivateDaemon, allowed: Path, tmp_path: Path) -> Iterator[Proxied]:
    with proxied(daemon, tmp_path, "operator", **settings(daemon, allowed)) as proxy:
        yield proxy


def settings(daemon: PrivateDaemon, allowed: Path) -> dict[str, Any]:
    mounts = {
        "allow": [str(allowed)],
        "nfs": [],
        "volume_drivers": ["local"],
        "volumes_from": False,
    }
    options = {
        "pins": str(daemon.folder / "pins"),
        "pins_state": str(daemon.folder / "pins.json"),
    }
    return {"mounts": mounts, "options": options}


WAYS = [
    ("-v", "{}:/v"),
    ("-v", "{}:/v:ro"),
    ("-v", "{}:/v:z"),
    ("--mount", "type=bind,src={},dst=/v,readonly"),
    (
        "--mount",
        "type=volume,dst=/v,volume-driver=local,volume-opt=type=none,volume-opt=o=bind,"
        "volume-opt=device={}",
    ),
]


@pytest.mark.parametrize(("option", "value"), WAYS)
def test_create_swap_start_reads_the_judged_folder(
    behind: Proxied, allowed: Path, tmp_path: Path, option: str, value: str
) -> None:
    folder = allowed / tmp_path.name
    folder.mkdir()
    (folder / "canary").write_text("judged")
    show = ("img:1", "sh", "-c", "cat /v/canary; cat /v/shadow")
    name = f"swap-{tmp_path.name[-8:]}"
    done = behind.docker("create", "--name", name, *NONE, option, value.format(folder), *show)
    assert done.returncode == 0, done.stderr
    try:
        inspected = behind.docker("inspect", name).stdout
        assert str(folder) in inspected
        assert str(behind.folder / "pins") not in inspected
        assert behind.docker("start", "-a", name).stdout == "judged"
        folder.rename(allowed / f"{tmp_path.name}-moved")
        folder.symlink_to("/etc")
        started = behind.docker("start", "-a", name)
        assert "root:" not in started.stdout + started.stderr
        assert started.returncode != 0 or started.stdout == "judged"
        # Past the proxy, as a restart policy starts it: the pin is the folder that was judged.
        real = PrivateDaemon(behind.folder)
        assert real.docker("start", "-a", name).stdout == "judged"
    finally:
        behind.docker("rm", "-f", name)


def test_create_swap_start_across_a_restart_of_everything(
    daemon: PrivateDaemon, allowed: Path, tmp_path: Path
) -> None:
    folder = allowed / "restarted"
    folder.mkdir()
    (folder / "canary").write_text("judged")
    given = settings(daemon, allowed)
    try:
        with proxied(daemon, tmp_path, "operator", **given) as proxy:
            show = ("img:1", "sh", "-c", "cat /v/canary; cat /v/shadow")
            volume = f"{folder}:/v"
            done = proxy.docker("create", "--name", "again", *NONE, "-v", volume, *show)
            assert done.returncode == 0, done.stderr
        unmount(daemon.folder / "pins")
        # Before the proxy runs, nothing is mounted.
        assert "judged" not in daemon.docker("start", "-a", "again").stdout
        (tmp_path / "p").mkdir()
        with proxied(daemon, tmp_path / "p", "operator", **given):
            assert daemon.docker("start", "-a", "again").stdout == "judged"
        unmount(daemon.folder / "pins")
        folder.rename(allowed / "restarted-moved")
        folder.symlink_to("/etc")
        Pins(str(daemon.folder / "pins"), str(daemon.folder / "pins.json"))
        started = daemon.docker("start", "-a", "again")
        assert started.returncode != 0
        assert "root:" not in started.stdout
    finally:
        daemon.docker("rm", "-f", "again")


def test_pins_are_decided_again_when_the_host_starts(
    daemon: PrivateDaemon, allowed: Path, tmp_path: Path
) -> None:
    folder = allowed / "decided"
    folder.mkdir()
    (folder / "canary").write_text("judged")
    home = daemon.folder / "pins-decided"
    options = {"pins": str(home), "pins_state": str(home.with_suffix(".json"))}
    given = {**settings(daemon, allowed), "options": options}
    closed = {**given, "mounts": {**given["mounts"], "allow": []}}
    try:
        with proxied(daemon, tmp_path, "operator", **given) as proxy:
            show = ("img:1", "cat", "/v/canary")
            secret = ("-e", "PASSWORD=hidden")
            volume = ("-v", f"{folder}:/v")
            done = proxy.docker("create", "--name", "decided", *NONE, *secret, *volume, *show)
            assert done.returncode == 0, done.stderr
        assert "hidden" not in home.with_suffix(".json").read_text()
        for number, (roles, data, is_mounted) in enumerate(
            [
                (("operator",), given, True),
                (("operator",), closed, False),
                (("viewer",), given, False),
                (("operator",), given, True),
            ]
        ):
            unmount(home)
            (tmp_path / str(number)).mkdir()
            with proxied(daemon, tmp_path / str(number), *roles, **data) as proxy:
                lines = proxy.decided()
                assert (lines[0]["decision"] == "allow") is is_mounted, lines
                started = daemon.docker("start", "-a", "decided")
                assert (started.stdout == "judged") is is_mounted, started.stderr
    finally:
        daemon.docker("rm", "-f", "decided")
        unmount(home)


def test_folder_that_is_not_there_is_not_made(behind: Proxied, allowed: Path) -> None:
    done = behind.docker("create", *NONE, "-v", f"{allowed}/none:/v", "img:1")
    assert "does not exist: create it first" in done.stderr
    assert not (allowed / "none").exists()


def test_folder_of_the_pins_is_protected(behind: Proxied) -> None:
    done = behind.docker("create", *NONE, "-v", f"{behind.folder}/pins:/v", "img:1")
    assert "may not be mounted" in done.stderr
