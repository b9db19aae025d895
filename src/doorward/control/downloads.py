"""One bundle from its service, or from a file: the result of a single request."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from doorward.base.records import record
from doorward.bundles.bundle import Bundle, BundleError, read_download, read_local_bundle
from doorward.bundles.loader import Limits
from doorward.config.bundle_options import BundleOptions
from doorward.control.answers import Answer, Client, ServiceError, status_text
from doorward.control.registry import RegistryError
from doorward.control.rounds import Ask, Steps
from doorward.rego import RegoError
from doorward.rego.shared import Timers

__all__ = ["Download", "DownloadError", "Downloader", "limits_for"]

LONG_POLLING: Final = "application/vnd.openpolicyagent.bundles"
"""The content type by which a server says that it supports long polls."""
_MODES: Final = "modes=snapshot,delta"


class DownloadError(Exception):
    """There is no valid bundle. `status` is that of the HTTP response, None without one; `cause`
    are the errors in the bundle's policies.
    """

    def __init__(
        self, message: str, *, status: int | None = None, cause: RegoError | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.cause = cause


@record
class Download:
    """A downloaded bundle with its ETag and bytes. `bundle` is None if it has not changed."""

    bundle: Bundle | None
    etag: str = ""
    content: bytes = b""


def limits_for(options: BundleOptions) -> Limits:
    """Return the size limits of a bundle for its option `size_limit_bytes`, which is the limit of
    its data. It can lower the default limit of policies, and raise that of the unpacked bundle.
    """
    default = Limits()
    return Limits(
        policy_bytes=min(default.policy_bytes, options.size_limit),
        data_bytes=options.size_limit,
        unpacked_bytes=max(default.unpacked_bytes, options.size_limit),
    )


class Downloader:
    """Downloads one bundle repeatedly. `client` is None for a bundle that is a file. Not
    thread-safe.
    """

    def __init__(self, options: BundleOptions, client: Client | None, *, v0: bool = False) -> None:
        self.options = options
        self.etag = ""
        """The ETag that is sent with the next request; "" requests the bundle in any case."""
        self._client = client
        self._v0 = v0
        self._waits = options.polling.long_polling
        self.long_polls = self._waits is not None
        """True if the server keeps requests waiting, so that the next one may follow at once."""

    def fetch(self, timers: Timers) -> Steps[Download]:
        """Download the bundle if it is not `etag` still; yields its request to the runner. A new
        bundle sets `long_polls`, but not `etag`. DownloadError if there is no response or no valid
        bundle in it. Stage durations are added to `timers`.
        """
        path = self.options.file
        if path is not None:
            return self._read_file(path, timers)
        steps = self._pull(timers) if self._is_registry else self._request_bundle(timers)
        answer = yield from steps
        if answer.status == 304:
            return Download(None, answer.headers.get("etag", self.etag))
        if answer.status != 200:  # the next request waits as this one did, as in OPA
            text = status_text(answer.status) or str(answer.status)
            raise DownloadError(f"server replied with {text}", status=answer.status)
        bundle = self._read(lambda: self._unpack(answer.body, timers), timers)
        self.long_polls = (
            self._waits is not None and answer.headers.get("content-type") == LONG_POLLING
        )
        return Download(bundle, answer.headers.get("etag", ""), answer.body)

    def _request_bundle(self, timers: Timers) -> Steps[Answer]:
        """Request the bundle from a service that is not a registry, yielding the request to the
        runner. `etag` lets the service answer 304. If long polling is configured, the service is
        asked to wait for a new bundle, unless its last bundle showed that it cannot. Return an
        answer of any status; DownloadError if there is none.
        """
        headers, wait = {"prefer": _MODES}, 0
        if self._waits is not None and self.long_polls:
            wait = self._waits
            headers["prefer"] += f";wait={wait}"
        if self.etag:
            headers["if-none-match"] = self.etag
        assert self._client is not None
        try:
            with timers.measure("bundle_request"):
                return (
                    yield Ask(
                        self._client,
                        self.options.resource,
                        headers=headers,
                        # A server that waits longer than it was asked to is given a minute more.
                        wait=wait + 60.0 if wait else 0.0,
                        limit=Limits().archive_bytes,
                    )
                )
        except ServiceError as error:
            raise DownloadError(f"request failed: {error}") from None

    @property
    def _is_registry(self) -> bool:
        return self._client is not None and self._client.service.is_registry

    def _pull(self, timers: Timers) -> Steps[Answer]:
        """Request the bundle from an OCI registry, yielding the request to the runner; the answer
        has status 304 if its digest is still `etag`. DownloadError, with the registry's status if
        it answered, if it cannot be pulled.
        """
        client, resource = self._client, self.options.resource
        assert client is not None
        try:
            with timers.measure("bundle_request"):
                limit = Limits().archive_bytes
                return (yield Ask(client, resource, limit=limit, pulls=True, etag=self.etag))
        except RegistryError as error:
            raise DownloadError(
                f"failed to pull {resource}: {error}", status=error.status
            ) from None
        except ServiceError as error:
            raise DownloadError(f"failed to pull {resource}: {error}") from None

    def _unpack(self, content: bytes, timers: Timers) -> Bundle:
        """Return the bundle in the bytes of a download; BundleError if it is invalid or its
        signature is.
        """
        options = self.options
        return read_download(
            options.name,
            content,
            v0=self._v0,
            verification=options.verification,
            limits=limits_for(options),
            timers=timers,
        )

    def _read_file(self, path: str, timers: Timers) -> Download:
        """Read the bundle of a `file://` URL; its digest stands for the ETag, and `bundle` of the
        result is None if that is still `etag`. DownloadError if it does not exist or is invalid.
        """
        options = self.options
        if not os.path.exists(path):
            raise DownloadError(f"stat {path}: no such file or directory")

        def read() -> Bundle:
            """Read and verify the bundle at `path`."""
            return read_local_bundle(
                options.name,
                path,
                v0=self._v0,
                verification=options.verification,
                limits=limits_for(options),
                timers=timers,
            )

        bundle = self._read(read, timers)
        return Download(None if bundle.digest == self.etag else bundle, bundle.digest)

    def _read(self, read: Callable[[], Bundle], timers: Timers) -> Bundle:
        """Return the bundle that `read` returns; the time counts as `rego_load_bundles` in
        `timers`. Turn its BundleError into a DownloadError, and raise one for a delta bundle with
        `persist`, which cannot be saved.
        """
        try:
            with timers.measure("rego_load_bundles"):
                bundle = read()
        except BundleError as error:
            raise DownloadError(str(error), cause=error.cause) from None
        if bundle.changes is not None and self.options.persist:
            raise DownloadError(
                "'persist' property is true in config. persisting delta bundle to disk is not "
                "supported"
            )
        return bundle
