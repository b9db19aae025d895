"""A pod as Kubernetes makes one, out of network namespaces: the example inside, clients outside.

    client    10.88.0.1   ----- 10.88.0.2   pod
    client6   fd00:66::1  ----- fd00:66::2  pod

The application listens on every address, as applications do, and the redirect alone stands in
front of it. Envoy and the decision point run as user 1111, the application as user 1000.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Literal

from tests.envoy.namespaces import Namespace, make_namespace, program
from tests.waiting import PATIENCE

from acceptance.ports import Ports
from acceptance.stack import EXAMPLE, Stack
from acceptance.wire import Answer, send
from doorward.envoy.kit.bootstrap import Bootstrap, render

Origin = Literal["client", "client6", "neighbour", "neighbour6"]

INIT: Final = ("envoy", "redirect", "-p", "8000", "-u", "1111", "-w", "8282")
ADDRESSES: Final[dict[Origin, str]] = {
    "client": "10.88.0.2",
    "client6": "fd00:66::2",
    "neighbour": "127.0.0.1",
    "neighbour6": "::1",
}
_USERS: Final = {"people": 1000, "doorward": 1111, "envoy": 1111}
_CLONE_NEWNET: Final = 0x40000000


@contextmanager
def entered(namespace: Namespace) -> Iterator[None]:
    """This thread, and what it starts and opens meanwhile, is in the namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as back, open(f"/run/netns/{namespace.name}") as there:
        _set(libc, there.fileno())
        try:
            yield
        finally:
            _set(libc, back.fileno())


def _set(libc: ctypes.CDLL, descriptor: int) -> None:
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Network:
    """Three namespaces and the cables between them, for as long as the block lasts."""

    def __init__(self) -> None:
        self._exit = ExitStack()

    def __enter__(self) -> Network:
        with ExitStack() as stack:
            self.pod = stack.enter_context(make_namespace("pod"))
            self.client = stack.enter_context(make_namespace("client"))
            self.client6 = stack.enter_context(make_namespace("client6"))
            self._connect(self.client, "eth0", ("10.88.0.1/24",), ("10.88.0.2/24",))
            self._connect(self.client6, "eth1", ("fd00:66::1/64",), ("fd00:66::2/64",))
            self._exit = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def origin(self, origin: Origin) -> Namespace:
        """The namespace that somebody is in."""
        return {"client": self.client, "client6": self.client6}.get(origin, self.pod)

    def _connect(
        self, other: Namespace, name: str, theirs: tuple[str, ...], ours: tuple[str, ...]
    ) -> None:
        subprocess.run(
            [program("ip"), "link", "add", "eth0", "netns", other.name,
             "type", "veth", "peer", name, "netns", self.pod.name],
            check=True,
        )  # fmt: skip
        for namespace, device, addresses in ((other, "eth0", theirs), (self.pod, name, ours)):
            for address in addresses:
                namespace.run("ip", "address", "add", address, "dev", device, "nodad")
            namespace.run("ip", "link", "set", device, "up")


class Pod(Stack):
    """The example in the pod's namespace; clients ask for the application's own port."""

    def __init__(self, folder: Path, network: Network) -> None:
        super().__init__(folder, Ports())
        self.network = network

    def __enter__(self) -> Pod:
        super().__enter__()
        return self

    def start(self) -> None:
        with entered(self.network.pod):
            super().start()

    def start_pdp(self) -> None:
        with entered(self.network.pod):
            super().start_pdp()

    def start_envoy(self) -> None:
        """Start the proxy and wait until it answers."""
        with entered(self.network.pod):
            self._launch_envoy()

    def kill_envoy(self) -> None:
        """End the proxy as the kernel does."""
        self._kill("envoy")

    def send(self, request: bytes, *, within: float) -> Answer:
        with entered(self.network.client):
            return send(self.ports.people, request, within=within, host=ADDRESSES["client"])

    def init(self, *arguments: str) -> None:
        """What the init container does."""
        self.network.pod.doorward(*INIT, *arguments)

    def remove_redirect(self) -> None:
        """What nobody should do."""
        self.network.pod.doorward("envoy", "redirect", "--remove")

    def _people_host(self) -> str:
        return ""  # all addresses of both families

    def _pdp_options(self) -> list[str]:
        config = self.folder / "doorward.yaml"
        text = (EXAMPLE / "doorward.yaml").read_text()
        config.write_text(text.replace("unix://doorward.sock", "127.0.0.1:9191"))
        return [
            "--addr=127.0.0.1:8181",
            f"--diagnostic-addr=0.0.0.0:{self.ports.diagnostic}",
            f"--diagnostic-addr=[::]:{self.ports.diagnostic}",
            f"--config-file={config}",
        ]

    def _write_envoy_yaml(self) -> Path:
        # How long a decision takes does not matter here: a busy machine must not make a denial.
        options = Bootstrap(
            listen="[::]:8000", admin="127.0.0.1:8001", pdp=("127.0.0.1:9191",),
            timeout=PATIENCE, upstream_timeout=PATIENCE,
        )  # fmt: skip
        file = self.folder / "envoy.yaml"
        file.write_text(render(options))
        return file

    def _launch(
        self, name: str, command: list[str], environment: Mapping[str, str] | None = None
    ) -> None:
        # The capability stands for the right to read this checkout, wherever it lies.
        user = [
            program("setpriv"), f"--reuid={_USERS[name]}", f"--regid={_USERS[name]}",
            "--clear-groups", "--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override",
            "--pdeathsig=KILL",
        ]  # fmt: skip
        super()._launch(name, [*user, *command], environment)
