"""Secrets taken out of a request before anyone sees it: the decision point, a log, an error.

Headers that carry credentials, passwords of registries, tokens and keys of a swarm, the data of
secrets and configs, build arguments and passwords inside of URLs and driver options become `MASK`.
Values are never changed in place; the parts that are masked are rebuilt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

__all__ = [
    "MASK",
    "mask_address",
    "mask_body",
    "mask_env",
    "mask_headers",
    "mask_host",
    "mask_path",
    "mask_query",
    "mask_views",
]

MASK: Final = "***"

_HEADERS: Final = frozenset(
    {
        "authorization",
        "cookie",
        "proxy-authorization",
        "set-cookie",
        "x-auth-token",
        "x-registry-auth",
        "x-registry-config",
    }
)
_HEADER: Final = re.compile(r"token|secret|passw|api-?key|credential|auth", re.IGNORECASE)
_WORD: Final = re.compile(
    r"pass(?:wd|word|phrase)?$|secret|token|api-?key|access-?key|private-?key|credential|^key$",
    re.IGNORECASE,
)
_OPTION: Final = re.compile(
    r"((?:^|,)\s*(?:pass(?:wd|word)?|secret|token|key)\s*=)[^,]*", re.IGNORECASE
)
_USERINFO: Final = re.compile(r"(?:(?<=//)[^/@?#]*|^[^/@:?#\s]+:[^/@?#\s]*)@(?!sha[0-9]+:)")
"""`user:password@` after `//`, or at the start of what is not a URL; not a tag before a digest."""
_SHORT: Final = 64
"""Characters of the name of a header or a parameter that is remembered."""


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of the headers in which the values of those that carry a credential, by their
    name, are masked.
    """
    masked = dict(headers)
    for name in headers:
        if (_is_known if len(name) <= _SHORT else _is_credential)(name):
            masked[name] = MASK
    return masked


def _is_credential(name: str) -> bool:
    return name.lower() in _HEADERS or _HEADER.search(name) is not None


_is_known: Final = lru_cache(256)(_is_credential)
"""The same for names as clients send them with every request."""


def mask_query(query: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the query with the values of build arguments, of `ENV` in changes and of parameters
    named like a secret masked, and with user and password in addresses masked. The same object if
    no parameter can hold a secret.
    """
    masked = query
    for name, values in query.items():
        mask = (_mask_of_known if len(name) <= _SHORT else _mask_of)(name)
        if mask is not None:
            masked = {**masked, name: [mask(text) for text in values]}
    return masked


def _mask_of(name: str) -> Callable[[str], str] | None:
    """Return the function that masks the values of a parameter; None where they hold no secret."""
    if name in _PARAMETERS:
        return _PARAMETERS[name]
    return (lambda _text: MASK) if _WORD.search(name) else None


_mask_of_known: Final = lru_cache(256)(_mask_of)
"""The same for names as clients send them with every request."""


def mask_address(text: str) -> str:
    """Return an address, image or device with `user:password` before an `@` masked; after `//` a
    user alone is masked too.
    """
    return _USERINFO.sub(f"{MASK}@", text) if "@" in text else text


def mask_views(views: dict[str, Any]) -> dict[str, Any]:
    """Return the views with credentials in the addresses of mounts, images, target and remote
    masked.

    Changes `views` in place.
    """
    if "@" in views.get("target", ""):
        views["target"] = mask_address(views["target"])
    if "@" in views["remote"]:
        views["remote"] = mask_address(views["remote"])
    if views["mounts"]:
        views["mounts"] = [_mask_fields(mount, ("source", "clean")) for mount in views["mounts"]]
    if "@" in views["image"]["reference"]:
        views["image"] = _mask_fields(views["image"], ("reference",))
    if views["images"]:
        views["images"] = [_mask_fields(image, ("reference",)) for image in views["images"]]
    return views


def _mask_fields(view: Any, names: tuple[str, ...]) -> Any:
    """Return a copy of `view` with credentials masked in the addresses in the named fields; the
    same view if there are none.
    """
    for name in names:
        if "@" in view[name]:
            break
    else:
        return view
    return {**view, **{name: mask_address(view[name]) for name in names}}


def _mask_build_arguments(text: str) -> str:
    """Return the JSON of build arguments with each value masked; the mask alone if it is not a JSON
    object.
    """
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return MASK
    if not isinstance(arguments, dict):
        return MASK
    return json.dumps(dict.fromkeys(arguments, MASK), separators=(",", ":"))


def _mask_change(text: str) -> str:
    """Return a change of an import or commit with the value of `ENV NAME=value` masked; others
    unchanged.
    """
    word = text.split(maxsplit=1)
    if word and word[0].upper() == "ENV" and len(word) == 2:
        name = re.split(r"[=\s]", word[1], maxsplit=1)[0]
        return f"{word[0]} {name}={MASK}"
    return text


_PARAMETERS: Final[Mapping[str, Callable[[str], str]]] = {
    "buildargs": _mask_build_arguments,
    "changes": _mask_change,
    **dict.fromkeys(("remote", "fromSrc", "fromImage", "repo"), mask_address),
}


def mask_path(path: str, query: Mapping[str, list[str]]) -> str:
    """Return `path` with its query replaced by the masked `query`."""
    parts = [f"{quote(k)}={quote(v, safe='*')}" for k, vs in query.items() for v in vs]
    return f"{path.partition('?')[0]}?{'&'.join(parts)}"


def mask_env(entries: list[str]) -> list[str]:
    """Return `NAME=value` entries with their values masked; an entry without `=` is unchanged."""
    return [f"{name}={MASK}" if eq else name for name, eq, _ in (e.partition("=") for e in entries)]


def mask_body(action: str, body: Any, *, env: bool) -> Any:
    """Return the body of a request with its secrets masked; `action` decides which fields hold
    secrets. With `env` the values of environment variables are masked as well. The body of a login
    or a push becomes {}; that of an action without secrets, and None, are returned unchanged.
    """
    mask = _BY_ACTION.get(action)
    if mask is None or body is None:
        return body
    return mask(body, env)


def _drop(_body: Any, _env: bool) -> Any:
    """Return {}: all of this body is secret."""
    return {}


def _mask_secret(body: Any, _env: bool) -> Any:
    """Return a request that creates a secret or config, with its data and the secrets in its driver
    options masked.
    """
    masked = {**body, **({"Data": MASK} if "Data" in body else {})}
    for name in ("Driver", "Templating"):
        driver = masked.get(name)
        if isinstance(driver, dict) and driver.get("Options"):
            masked[name] = {**driver, "Options": _mask_options(driver["Options"])}
    return masked


def _mask_create(body: Any, env: bool) -> Any:
    """Return the body of a container creation with the secrets in the options of its log and volume
    drivers masked and, with `env`, the values of environment variables.
    """
    if env and body.get("Env"):
        body = {**body, "Env": mask_env(body["Env"])}
    host = body.get("HostConfig")
    masked = mask_host(host) if host else host
    return body if masked is host else {**body, "HostConfig": masked}


def _mask_start(body: Any, _env: bool) -> Any:
    """Return the body of a start, a HostConfig, masked."""
    return mask_host(body)


def mask_host(host: dict[str, Any]) -> dict[str, Any]:
    """Return a HostConfig with the secrets in the options of its log driver and its volumes masked.
    The same object if it has neither log options nor mounts.
    """
    log = host.get("LogConfig")
    masked = host
    if log and log.get("Config"):
        masked = {**masked, "LogConfig": {**log, "Config": _mask_options(log["Config"])}}
    if host.get("Mounts"):
        masked = {**masked, "Mounts": _mask_mounts(host["Mounts"])}
    return masked


def _mask_mounts(mounts: list[Any]) -> list[Any]:
    """Return mounts with the secrets in the options of their volume drivers masked."""
    return [_mask_mount(item) if item and item.get("VolumeOptions") else item for item in mounts]


def _mask_mount(item: dict[str, Any]) -> dict[str, Any]:
    """Return a mount with the secrets in the options of its volume driver masked."""
    # CIFS has its password among the options of the volume's driver.
    options = item["VolumeOptions"]
    driver = options.get("DriverConfig")
    if not driver or not driver.get("Options"):
        return item
    driver = {**driver, "Options": _mask_options(driver["Options"])}
    return {**item, "VolumeOptions": {**options, "DriverConfig": driver}}


def _mask_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a driver with secrets masked: values of options with names such as
    `token`, and passwords in URLs and in lists such as `o=username=a,password=b`.
    """
    return {
        name: MASK if _WORD.search(name) else mask_address(_OPTION.sub(rf"\g<1>{MASK}", value))
        for name, value in options.items()
    }


def _mask_exec(body: Any, env: bool) -> Any:
    """Return the body that creates an exec; with `env`, the values of environment variables are
    masked.
    """
    return {**body, "Env": mask_env(body["Env"])} if env and body.get("Env") else body


def _mask_volume(body: Any, _env: bool) -> Any:
    """Return the body that creates a volume with the secrets in its driver's options masked."""
    return (
        {**body, "DriverOpts": _mask_options(body["DriverOpts"])}
        if body.get("DriverOpts")
        else body
    )


def _mask_network(body: Any, _env: bool) -> Any:
    """Return the body that creates a network with the secrets in its driver's options masked."""
    return {**body, "Options": _mask_options(body["Options"])} if body.get("Options") else body


def _mask_service(body: Any, env: bool) -> Any:
    """Return the body of a request about a service with secrets in the mounts and log options of
    its tasks masked and, with `env`, the values of environment variables.
    """
    task = body.get("TaskTemplate")
    if not task:
        return body
    masked = dict(task)
    spec = task.get("ContainerSpec")
    if spec:
        inner = dict(spec)
        if env and spec.get("Env"):
            inner["Env"] = mask_env(spec["Env"])
        if spec.get("Mounts"):
            inner["Mounts"] = _mask_mounts(spec["Mounts"])
        masked["ContainerSpec"] = inner
    log = task.get("LogDriver")
    if log and log.get("Options"):
        masked["LogDriver"] = {**log, "Options": _mask_options(log["Options"])}
    return {**body, "TaskTemplate": masked}


_SWARM_KEY: Final = re.compile(r"token|key|secret|cert", re.IGNORECASE)


def _mask_swarm(body: Any, _env: bool) -> Any:
    """Return a body with the values of tokens, keys and certificates masked, at any depth."""
    if isinstance(body, dict):
        return {
            key: MASK
            if item and not isinstance(item, bool) and _SWARM_KEY.search(key)
            else _mask_swarm(item, _env)
            for key, item in body.items()
        }
    if isinstance(body, list):
        return [_mask_swarm(item, _env) for item in body]
    return body


def _mask_settings(body: Any, env: bool) -> Any:
    """Return the settings of a plugin, which are environment variables; with `env`, their values
    are masked.
    """
    return mask_env(body) if env else body


_BY_ACTION: Final[Mapping[str, Callable[[Any, bool], Any]]] = {
    "system.auth": _drop,
    # Old clients send the credentials of the registry in the body of a push.
    "image.push": _drop,
    "plugin.push": _drop,
    "secret.create": _mask_secret,
    "secret.update": _mask_secret,
    "config.create": _mask_secret,
    "config.update": _mask_secret,
    "container.create": _mask_create,
    "container.start": _mask_start,
    "container.commit": _mask_create,
    "container.exec": _mask_exec,
    "volume.create": _mask_volume,
    "network.create": _mask_network,
    "service.create": _mask_service,
    "service.update": _mask_service,
    "swarm.init": _mask_swarm,
    "swarm.join": _mask_swarm,
    "swarm.update": _mask_swarm,
    "swarm.unlock": _mask_swarm,
    "plugin.set": _mask_settings,
}
