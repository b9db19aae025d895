"""Bundles from the registry that Docker made: pushed, pulled, pushed again, and away."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.bundles.archives import write_archive
from tests.cli.test_run import Process
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

PROGRAM = "docker-registry"
PASSWORDS = "ann:$2b$05$abcdefghijklmnopqrstuuLK7U1u6pVRmL7L1BBM2aS35PSZnDXlK\n"
"""What `htpasswd -nbB ann s3cret` prints."""
CONFIG = """\
version: 0.1
storage:
  filesystem:
    rootdirectory: {folder}/storage
http:
  addr: 127.0.0.1:{port}
  secret: any
auth:
  htpasswd:
    realm: tests
    path: {folder}/htpasswd
"""


class Registry:
    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        (folder / "htpasswd").write_text(PASSWORDS)
        config = folder / "registry.yml"
        config.write_text(CONFIG.format(folder=folder, port=self.port))
        self._log = (folder / "registry.log").open("wb")
        command = [str(shutil.which(PROGRAM)), "serve", str(config)]
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=url, auth=("ann", "s3cret"), timeout=PATIENCE)
        wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            return self.client.get("/v2/").status_code == 200
        except httpx.TransportError:
            return False

    def push(self, name: str, tag: str, content: bytes) -> None:
        digest = self._blob(name, content)
        empty = self._blob(name, b"{}")
        layer = "application/vnd.oci.image.layer.v1.tar+gzip"
        config = "application/vnd.oci.image.config.v1+json"
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {"mediaType": config, "digest": empty, "size": 2},
            "layers": [{"mediaType": layer, "digest": digest, "size": len(content)}],
        }
        headers = {"content-type": str(manifest["mediaType"])}
        path = f"/v2/{name}/manifests/{tag}"
        answer = self.client.put(path, content=json.dumps(manifest).encode(), headers=headers)
        assert answer.status_code == 201, answer.text

    def _blob(self, name: str, content: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        location = self.client.post(f"/v2/{name}/blobs/uploads/").headers["location"]
        url = httpx.URL(location).copy_merge_params({"digest": digest})
        assert self.client.put(url, content=content).status_code == 201
        return digest

    def kill(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()
        self._log.close()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is missing: scripts/system-packages installs it")
    server = Registry(tmp_path)
    yield server
    server.kill()


def bundle(folder: Path, number: int) -> bytes:
    path = folder / "bundle.tar.gz"
    revision = json.dumps({"revision": f"r{number}", "roots": ["app"]})
    write_archive(path, {".manifest": revision, "p.rego": f"package app\n\nnumber := {number}\n"})
    return path.read_bytes()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bundle_is_pulled_each_time_that_it_is_pushed(
    registry: Registry, tmp_path: Path, workers: int
) -> None:
    registry.push("org/policies", "stable", bundle(tmp_path, 1))
    service = {
        "url": f"http://127.0.0.1:{registry.port}",
        "type": "oci",
        "credentials": {"bearer": {"scheme": "Basic", "token": "ann:s3cret"}},
    }
    polling = {"min_delay_seconds": 0, "max_delay_seconds": 1}
    resource = f"127.0.0.1:{registry.port}/org/policies:stable"
    config = {
        "services": {"r": service},
        "bundles": {"app": {"resource": resource, "polling": polling, "persist": True}},
        "persistence_directory": str(tmp_path / "kept"),
        "status": {"console": False, "service": "r"},
    }
    (tmp_path / "c.json").write_text(json.dumps(config))
    server = Process(tmp_path, "-c", "c.json", f"--workers={workers}")
    try:
        assert server.ready(), server.log.read_text()
        assert server.ask("/v1/data/app/number")[1]["result"] == 1
        registry.push("org/policies", "stable", bundle(tmp_path, 2))
        wait_until(lambda: server.ask("/v1/data/app/number")[1]["result"] == 2)
        registry.kill()
        # It goes on without, and says so; the next start has the last bundle.

        def complaint() -> str:
            status = server.ask("/v1/status")[1]["result"]["bundles"]["app"]
            return str(status.get("message", ""))

        assert wait_until(complaint).startswith(f"failed to pull {resource}: ")
        assert server.ask("/v1/data/app/number")[1]["result"] == 2
        server.end()
        server = Process(tmp_path, "-c", "c.json", f"--workers={workers}")
        assert server.ready()
        assert server.ask("/v1/data/app/number")[1]["result"] == 2
        assert server.end() == 0
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
