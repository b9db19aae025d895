"""Dockerfiles become the images and URLs of a build; what builders read differently is refused.

The parsers of the builders (of dockerd 20.10.24 and 29.7.2) were asked about random files by hand:
docs/docker-proxy.md has the figures.
"""

from __future__ import annotations

import pytest

from doorward.docker.request.dockerfile import (
    MOST_DOCKERFILE,
    Dockerfile,
    DockerfileError,
    read_dockerfile,
)


def read(text: str, **arguments: str | None) -> Dockerfile:
    return read_dockerfile(text.encode(), arguments)


def test_images_of_stages_copies_and_mounts_are_listed_and_stages_are_not() -> None:
    dockerfile = read(
        "# comment\n"
        "ARG TAG=3\n"
        "FROM --platform=$BUILDPLATFORM golang:${TAG} AS build\n"
        "RUN --mount=type=cache,target=/root/.cache --mount=type=bind,from=ghcr.io/tools:1 make\n"
        "FROM build AS test\n"
        "from scratch\n"
        "COPY --chown=${UID}:0 --from=build /x /x\n"
        "COPY --from=0 /x /y\n"
        "COPY --from=docker.io/library/nginx:1 /etc /etc\n"
        "ADD --chmod=755 f https://example.com/a.tgz /\n"
        'CMD ["x"]\n'
    )
    assert dockerfile.images == ["docker.io/library/nginx:1", "ghcr.io/tools:1", "golang:3"]
    assert dockerfile.remotes == ["https://example.com/a.tgz"]
    assert dockerfile.instructions == ["ADD", "ARG", "CMD", "COPY", "FROM", "RUN"]
    assert (dockerfile.entitlements, dockerfile.frontend) == ([], "")


def test_lines_are_joined_as_builders_join_them() -> None:
    assert read("FRO\\\nM a\\\n:1\n").images == ["a:1"]
    assert read("FROM a \\  \n\n  # comment \\\n  AS b\nFROM b\n").images == ["a"]
    assert read("# escape=`\nFROM a`\n:1\nRUN dir c:\\\nCOPY --from=b x y\n").images == ["a:1", "b"]
    assert read("FROM a\nRUN echo \\\\\nCOPY --from=b x y\n").images == ["a", "b"]
    assert read("FROM a\r\nCOPY --from=b x y\r\n").images == ["a", "b"]


def test_what_runs_in_later_builds_counts() -> None:
    dockerfile = read("FROM a\nONBUILD ADD http://x/y /\nONBUILD COPY --from=b c d\n")
    assert (dockerfile.images, dockerfile.remotes) == (["a", "b"], ["http://x/y"])


def test_entitlements_and_frontends_are_named() -> None:
    dockerfile = read(
        "# syntax=docker/dockerfile:1\nFROM a\n"
        "RUN --network=host --security=insecure --device=gpu id\nRUN --network=none id\n"
    )
    assert dockerfile.entitlements == ["device", "network.host", "security.insecure"]
    assert dockerfile.frontend == "docker/dockerfile:1"


@pytest.mark.parametrize(
    ("text", "arguments", "image"),
    [
        ("ARG B=a\nFROM $B\n", {}, "a"),
        ("ARG B=\"a\" C='b'\nFROM ${B}/$C\n", {}, "a/b"),
        ("ARG B=a\nFROM $B\n", {"B": "b"}, "b"),
        ("ARG B\nFROM $B\n", {"B": "b"}, "b"),
    ],
)
def test_build_arguments_are_put_in(text: str, arguments: dict[str, str], image: str) -> None:
    assert read(text, **arguments).images == [image]


UNREADABLE = [
    ("", "no stage"),
    ("RUN x\n", "comes before the first FROM, where only ARG may stand"),
    ("FROM\n", "not of the form"),
    ("FROM a b\n", "not of the form"),
    ("FROM a AS B\n", "small letters"),
    ("FROM a AS b\nFROM c AS b\n", "name b of a stage is repeated"),
    ("FROM a AS b\nFROM B\n", "capitals"),
    ("FROM 0\n", "a number"),
    ('FROM "a"\n', "plain reference"),
    ("FROM a\\b\n", "plain reference"),
    ("FROM $B\n", "not known"),
    ("ARG B\nFROM $B\n", "not known"),
    ("ARG B=a\nARG B=b\nFROM $B\n", "not known"),
    ("ARG B=a\nARG 'B'=b\nFROM $B\n", "not known"),
    ("ARG B=$C\nFROM $B\n", "not known"),
    ("ARG B=a\nFROM ${B:-c}\n", "plain reference"),
    ("FROM a\nARG B=b\nFROM $B\n", "not known"),
    ("FROM a\nCOPY --from=$B x y\n", "has a variable"),
    ('FROM a\nCOPY --from="b" x y\n', "has quotes"),
    ("FROM a\nCOPY --from=0 x y\n", "--from=0 does not name an earlier stage"),
    ("FROM a\nONBUILD COPY --from=0 x y\n", "--from=0 does not name an earlier stage"),
    ("FROM a AS b\nCOPY --from=b x y\n", "an earlier stage in small letters"),
    ("FROM a\nCOPY --from= x y\n", "neither a stage nor an image"),
    ("FROM a\nCOPY --evil=b x y\n", "flag --evil of COPY is unknown: use one of chmod, chown, "),
    (
        "FROM a\nRUN --mount=type=evil x\n",
        "type evil of --mount is unknown: use one of bind, cache, ",
    ),
    ('FROM a\nRUN --mount="type=bind,from=b" x\n', "has quotes"),
    ("FROM a\nRUN --network=other x\n", "--network is unknown: use one of default, host, none"),
    ("FROM a\nRUN cat <<EOF\nEOF\n", "here-documents"),
    ("FROM a\nONBUILD RUN cat <<EOF\nEOF\n", "here-documents"),
    ("FROM a\nADD $URL /\n", "source of ADD"),
    ("FROM a\nADD git@github.com:a/b /\n", "source of ADD"),
    ("FROM a\nADD GitHub.com/a/b /\n", "source of ADD"),
    ('FROM a\nADD ["http:\\u002f\\u002fx", "/"] z\n', "not a JSON array"),
    ("FROM a\nADD ['b']\n", "not a JSON array"),
    (f"FROM a\nADD {'[' * 20_000}\n", "not a JSON array"),
    ("FROM a\nEVIL b\n", "instruction EVIL is unknown"),
    ("FROM a\nONBUILD FROM b\n", "instruction FROM may not stand after ONBUILD"),
    ("FROM a\nONBUILD ONBUILD RUN b\n", "instruction ONBUILD may not stand after ONBUILD"),
    ("#!/usr/bin/x\nFROM a\n", "first line of the Dockerfile begins with"),
    (" # syntax=b\nFROM a\n", "beginning of its line"),
    ("# syntax=\nFROM a\n", "parser directive of the Dockerfile has no value"),
    ("# check=x\n# escape=`\nFROM a\n", "follows directive check"),
    ("# escape=x\nFROM a\n", "directive escape of the Dockerfile must be"),
    ("# syntax=a b\nFROM a\n", "must name an image"),
    ("// syntax=b\nFROM a\n", "comes before the first FROM"),
    ('{"syntax": "b"}\nFROM a\n', "comes before the first FROM"),
    ("\ufeff# syntax=b\nFROM a\n", "control character"),
    ("FROM\u00a0a\n", "control character"),
    ("FROM a\vAS b\n", "control character"),
    ("FROM a\rFROM b\n", "control character"),
    ("FROM a\x00\n", "control character"),
    ("FROM a\n#" + "x" * 70_000, "longer than 60000 characters"),
    ("FROM a\n" + "#\n" * MOST_DOCKERFILE, "Dockerfile is larger than 262144 bytes"),
]


@pytest.mark.parametrize(("text", "reason"), UNREADABLE)
def test_what_builders_could_read_differently_is_refused(text: str, reason: str) -> None:
    with pytest.raises(DockerfileError, match=reason):
        read(text)


def test_arguments_of_buildkit_and_other_encodings_are_refused() -> None:
    with pytest.raises(DockerfileError, match="changes how the Dockerfile is read"):
        read("FROM a\n", BUILDKIT_SYNTAX="evil")
    with pytest.raises(DockerfileError, match="not UTF-8"):
        read_dockerfile(b"FROM a\n# \xff\n", {})


def test_error_has_its_line() -> None:
    with pytest.raises(DockerfileError, match=r"^line 3: instruction EVIL is unknown$"):
        read("FROM a\n\nEVIL b\n")
