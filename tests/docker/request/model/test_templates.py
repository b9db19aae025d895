"""Bodies that are read by templates: same values, notes and errors as when they are read whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

import pytest

from benchmarks.docker_decisions import write_body
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.errors import RequestError
from doorward.docker.request.input import to_input
from doorward.docker.request.model.readers import Notes
from doorward.docker.request.model.table import STRUCTS, read_body
from doorward.docker.request.model.templates import Templates
from doorward.docker.request.routes import find_route
from doorward.docker.request.schema import Array, Map, Struct, Type
from doorward.rego import to_json

ROUTE: Final = find_route("POST", "/containers/create")[0].model
SHAPES: Final[list[dict[str, Any]]] = [
    {},
    {"NetworkMode": "host"},
    {"NetworkMode": "container:x"},
    {"Privileged": True},
    {"MaskedPaths": []},
    {"VolumeDriver": "local"},
    {"Mounts": [{"Type": "volume", "Source": "v", "Target": "/v"}]},
    {"LogConfig": {"Type": "syslog", "Config": {"tag": "x", "password": "y"}}},
    {"PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8080"}]}, "Memory": 1 << 26},
    {"CapAdd": ["NET_ADMIN"], "Unknown": 1},
    {"capadd": ["NET_ADMIN"]},
    {"Memory": 1.5},
]
CONFIGS: Final[list[dict[str, Any]]] = [
    {},
    {"User": "0:0"},
    {"Volumes": {"/v": {}}},
    {"ExposedPorts": {"80/tcp": {}}, "MacAddress": "02:42:ac:11:00:02"},
    {"NetworkDisabled": True},
    {"Env": ["A=b"], "Labels": {"HostConfig": "x", "doorward.owner": "bob"}},
    {"Image": "user:pass@evil/x"},
    {"Image": "0123456789ab"},
    {"hostconfig": {"Privileged": True}},
    {"Privileged": True},
    {"NetworkingConfig": None},
    {"Healthcheck": {"Interval": 1.5}},
    {"Cmd": ['a","HostConfig":{"Binds":', "<&>"]},
]
BINDS: Final[list[Any]] = [
    None,
    [],
    ["/srv/a:/a"],
    ["v:/v:ro", "/etc:/x:rshared"],
    ["/a@b:/c"],
    ["/a,b:/c"],
    "/etc:/x",
    [7],
]
PIECES: Final = (
    b',"HostConfig":{"Binds":',
    b',"ContainerIDFile":',
    b',"HostConfig":{"Binds":null,"ContainerIDFile":""}',
    b'"Binds":["/etc:/x"],',
    b'"Privileged":true,',
    b',"Privileged":true',
    b'"Labels":{"HostConfig":{"Binds":null,"ContainerIDFile":""}},',
    b"}",
    b"{",
    b'"',
    b"\\",
    b" ",
    b"\n",
    b",",
    b"null",
    b"[]",
    b"\\u0048",
    b"\xc5\xbf",
    b"1e3",
)


def body_of(draw: Random) -> bytes:
    """A body as the client of docker writes it, with other fields in one to three parts."""
    return write_body(
        draw.randrange(50),
        binds=draw.choice(BINDS),
        config=draw.choice(CONFIGS) if draw.random() < 0.5 else {},
        host=draw.choice(SHAPES) if draw.random() < 0.5 else {},
    )


def mutated(draw: Random, body: bytes) -> bytes:
    """The same with a few bytes changed, most of them where it is cut."""
    for _ in range(draw.randint(1, 3)):
        marks = [body.find(piece) for piece in PIECES[:2]]
        near = draw.choice(marks) if draw.random() < 0.5 else draw.randrange(len(body) + 1)
        at = max(0, min(len(body), near + draw.randint(-3, 26)))
        match draw.randrange(5):
            case 0:
                body = body[:at] + draw.choice(PIECES) + body[at:]
            case 1:
                body = body[:at] + body[at + draw.randint(1, 30) :]
            case 2:
                start = draw.randrange(len(body))
                body = body[:at] + body[start : start + draw.randint(1, 1500)] + body[at:]
            case 3:
                body = body[:at] + body[at : at + 12].swapcase() + body[at + 12 :]
            case 4:
                body = body[:at] + bytes([draw.randrange(256)]) + body[at + 1 :]
    return body


def outcome(body: bytes, templates: Templates | None) -> Any:
    """The value and the notes, or the reason why there is none."""
    notes = Notes(views=set(ROUTE.judged))
    try:
        value = read_body(body, ROUTE.body, notes, templates)
    except RequestError as error:
        return f"{error.code}: {error}"
    return to_json(value), notes


def count_templated(bodies: list[bytes], read: Callable[[bytes], Any]) -> int:
    """Read all bodies; return how many had a template."""
    return sum(
        type(result) is tuple and result[1].template is not None for result in map(read, bodies)
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_bodies_are_read_by_templates_as_they_are_whole(seed: int) -> None:
    draw = Random(seed)
    templates = fresh()
    bodies = [body_of(draw) for _ in range(300)]
    for body in bodies + bodies:
        assert outcome(body, templates) == outcome(body, None), body
    assert count_templated(bodies, lambda body: outcome(body, templates)) > 150
    for body in bodies * 3:
        other = mutated(draw, body)
        for _ in range(3):  # seen, learned, known
            assert outcome(other, templates) == outcome(other, None), other


def fresh() -> Templates:
    assert ROUTE.templates is not None
    return ROUTE.templates.empty()


def input_of(body: bytes) -> Any:
    request = AuthzRequest("POST", "/v1.41/containers/create?name=c", body=body)
    try:
        input_doc: Any = to_input(request, resolve=str)
    except RequestError as error:
        return f"{error.code}: {error}"
    return to_json(input_doc)


@pytest.mark.long
def test_inputs_are_the_same_with_and_without_a_template() -> None:
    draw = Random(5)
    bodies = [body_of(draw) for _ in range(400)]
    firsts = [input_of(spaced(body)) for body in bodies]
    for body in bodies:
        input_of(body)
    for body, first in zip(bodies, firsts, strict=True):
        assert input_of(body) == first, body


SAMPLES: Final[dict[Any, list[Any]]] = {
    "string": ["x", "1"],
    "boolean": [True],
    "integer": [1],
    "words": [["x"], "x"],
}


def samples_of(type_: Type) -> list[Any]:
    """Values of a type that are not zero."""
    if isinstance(type_, Array):
        return [[each] for each in samples_of(type_.item)]
    if isinstance(type_, Map):
        return [{key: each} for key in ("80/tcp", "/x", "x") for each in samples_of(type_.item)]
    if isinstance(type_, Struct):
        return [{name: samples_of(each)[0]} for name, each in type_.fields.items()]
    return SAMPLES.get(type_, [{}])


@pytest.mark.parametrize("field", sorted(STRUCTS["ContainerCreate"].fields))
def test_every_field_of_a_configuration_is_seen_beside_a_template(field: str) -> None:
    for value in samples_of(STRUCTS["ContainerCreate"].fields[field]):
        for host in ({}, {"NetworkMode": "none"}):
            body = write_body(1, binds=None, config={field: value}, host=host)
            first = input_of(spaced(body))
            assert [input_of(body) for _ in range(3)] == [first] * 3, body


def spaced(body: bytes) -> bytes:
    """The same with a space at its end, which no body has that is read by a template."""
    return body.rstrip(b"\n") + b" "


def test_values_of_a_template_are_as_they_were_after_many_requests() -> None:
    templates = fresh()
    body = write_body(1, binds=["/srv/a:/a"], config={}, host={"CapAdd": ["CHOWN"]})
    first = [outcome(body, templates) for _ in range(3)][-1]
    notes = Notes()
    value = read_body(body, ROUTE.body, notes, templates)
    assert notes.template is not None
    value["HostConfig"]["Binds"].append("/etc:/x")
    value["Labels"]["a"] = "b"
    value["HostConfig"]["Memory"] = 1
    assert outcome(body, templates) == first


def test_a_part_that_is_in_the_template_may_not_be_in_the_head() -> None:
    templates = fresh()
    body = write_body(1, binds=None, config={}, host={})
    for _ in range(3):
        outcome(body, templates)
    twice = body.replace(b'{"Hostname"', b'{"HostConfig":{"Privileged":true},"Hostname"', 1)
    assert outcome(twice, templates) == "ambiguous: body names a key twice"
    folded = body.replace(b'{"Hostname"', b'{"hostConfig":{"Privileged":true},"Hostname"', 1)
    assert outcome(folded, templates) == outcome(folded, None)
    assert "twice" in outcome(folded, templates)


def test_templates_are_bounded() -> None:
    templates = fresh()
    for number in range(300):
        body = write_body(1, binds=None, config={}, host={"Memory": number + 1})
        for _ in range(2):
            outcome(body, templates)
    assert 0 < len(templates) <= 64
    long = write_body(1, binds=None, config={}, host={"GroupAdd": ["g" * 60] * 200})
    for _ in range(4):
        assert outcome(long, templates) == outcome(long, None)
        assert outcome(long, templates)[1].template is None


def test_escaped_signs_of_html_are_as_go_writes_them() -> None:
    templates = fresh()
    body = write_body(1, binds=None, config={"Cmd": ["sh", "-c", "a && b > c"]}, host={})
    escaped = body.replace(b"&", b"\\u0026").replace(b">", b"\\u003e")
    for _ in range(3):
        value, notes = outcome(escaped, templates)
    assert json.loads(value)["Cmd"] == ["sh", "-c", "a && b > c"]
    assert notes.template is not None
