"""The query of a build, as the command line of Docker writes it for the classic builder."""

from __future__ import annotations

import json

import pytest

from doorward.docker.commands.build import read_build
from doorward.docker.commands.options import CommandError

PLAIN = {"dockerfile": "Dockerfile", "version": "1"}


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ("", {}),
        ("-t a -t b:1", {"t": ["a", "b:1"]}),
        ("-f ./deploy/Dockerfile", {"dockerfile": "deploy/Dockerfile"}),
        ("--network default --rm --compress", {}),
        ("--network host --rm=false -q", {"networkmode": "host", "rm": "0", "q": "1"}),
        ("--no-cache --pull --force-rm", {"nocache": "1", "pull": "1", "forcerm": "1"}),
        (
            "-m 1g --memory-swap -1 -c 5",
            {"memory": "1073741824", "memswap": "-1", "cpushares": "5"},
        ),
        ("--cpu-quota 0 --shm-size 0", {}),
        ("--add-host a=1.2.3.4 --target x", {"extrahosts": ["a:1.2.3.4"], "target": "x"}),
        (
            "--platform Linux/ARM64 --isolation hyperv",
            {"platform": "linux/arm64", "isolation": "hyperv"},
        ),
        ("--security-opt a --security-opt b", {"securityopt": ["a", "b"]}),
    ],
)
def test_options_are_parameters(options: str, query: dict[str, object]) -> None:
    assert read_build([*options.split(), "."], "docker build") == {**PLAIN, **query}


def test_lists_and_pairs_are_documents() -> None:
    words = "--build-arg A=1 --build-arg B --label x=y=z --cache-from a,b --cache-from c"
    query = read_build([*words.split(), "--ulimit", "nofile=1:2", "."], "docker build")
    documents = {name: json.loads(str(query[name])) for name in {*query} - {*PLAIN}}
    assert documents == {
        "buildargs": {"A": "1", "B": None},
        "labels": {"x": "y=z"},
        "cachefrom": ["a", "b", "c"],
        "ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 2}],
    }


# Compared with docker's client 28.2 and its classic builder.
@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("-f sub/Dockerfile sub", "Dockerfile"),
        ("-f ./sub/x sub/", "x"),
        ("-f sub/deep/Dockerfile ./sub", "deep/Dockerfile"),
        ("-f sub/deep/Dockerfile .", "sub/deep/Dockerfile"),
        ("-f sub/../x .", "x"),
        ("-f x sub/..", "x"),
        ("-f ../x ..", "x"),
        ("-f ..x .", "..x"),
        ("-f /a/b/x /a", "b/x"),
        ("-f ./a/../x https://example.com/a.git#main", "x"),
        ("-f ./x github.com/a/b", "x"),
        ("-f ./x -", "./x"),
        ("-f ./x https://example.com/a.tar", "./x"),
    ],
)
def test_the_dockerfile_is_sent_relative_to_the_folder(words: str, path: str) -> None:
    assert read_build(words.split(), "docker build")["dockerfile"] == path


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("", "needs exactly one folder"),
        ("a b", "needs exactly one folder"),
        ("--secret id=x .", "`--secret`: this is an option of BuildKit, which makes many requests"),
        ("--push .", "an option of BuildKit"),
        ("-o out .", "an option of BuildKit"),
        ("-f - .", "from standard input"),
        ("-f Dockerfile sub", "the Dockerfile `Dockerfile` is outside `sub`"),
        ("-f ../sub/x sub", "is outside `sub`"),
        ("-f ../../x ..", "is outside `..`"),
        ("-f ../x git://example.com/a", "is outside `git://example.com/a`"),
        ("-f /a/x sub", "write both paths absolute, or both relative"),
        ("-f x /a", "write both paths absolute, or both relative"),
        ("--nothing .", "the option `--nothing` of `docker build` is not supported"),
    ],
)
def test_a_build_that_is_not_one_request_is_refused(words: str, problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        read_build(words.split(), "docker build")
