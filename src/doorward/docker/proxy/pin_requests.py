"""The requests for which folders were pinned, decided once more where a host starts.

A pin outlives the proxy, and a container the boot: it would get its folder back by a decision of
long ago. So beside each pin stand the requests that asked for it, and a pin is mounted again only
where one of them would be allowed now: by the policies and the data of today, with the groups that
its user has today. These decisions are made without the daemon, which does not run yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from doorward.docker.audit import AuditLog
from doorward.docker.decider.answer import Decider
from doorward.docker.plugin import Plugin, PluginOptions
from doorward.docker.proxy.peers import Names, PeerError
from doorward.docker.request.call import AuthzRequest, Caller
from doorward.docker.request.facts import ContainerFacts
from doorward.docker.request.host import HostFacts
from doorward.docker.request.input import Draft, resolve_path
from doorward.rego import to_json

__all__ = ["PinJudge", "PinnedRequest", "to_pinned_request"]

PinnedRequest: TypeAlias = dict[str, Any]
"""A request as JSON: path, caller and body."""
LONGEST: Final = 64 * 1024
"""Characters of a body's JSON without `Env` that are remembered; the pin of a longer one is not
mounted again.
"""
_PEER: Final = "peer"


def to_pinned_request(draft: Draft) -> PinnedRequest | None:
    """Return the part of a request that is stored with a pin, to be decided again after a restart.

    The values of `Env` are left out. None if there is no caller, if the body is not an object, or
    if it is longer than `LONGEST` characters of JSON.
    """
    caller, body = draft.request.caller, draft.body
    if caller is None or type(body) is not dict:
        return None
    # Without `Env`: secrets must not lie on the disk for as long as a pin does.
    text = to_json({name: item for name, item in body.items() if name != "Env"})
    if len(text) > LONGEST:
        return None
    return {
        "path": draft.target.path,
        "user": caller.name,
        "method": caller.method,
        "groups": list(caller.groups),
        "uid": caller.uid,
        "container": caller.container,
        "body": text,
    }


class _Absent(ContainerFacts):
    """Facts about containers when the daemon does not run yet: it is not asked. What it would say
    was judged before the pin was made, and is judged again when the container is started through
    the proxy.
    """

    def join(self, view: dict[str, Any], *, may_wait: bool = True) -> None:
        """Note the owner in `view` as asked for, without a question."""
        view["owner"] = {**view["owner"], "asked": True}


class PinJudge:
    """Decides stored requests again, when their pins have to be mounted again."""

    def __init__(
        self, decider: Decider, options: PluginOptions, host: HostFacts, audit: AuditLog | None
    ) -> None:
        self._names = Names()
        self._plugin = Plugin(
            decider, options, facts=_Absent("", resolve_path), host=host, audit=audit
        )

    def why_refused(self, document: Mapping[str, Any]) -> str:
        """Return the reason why a stored request would be refused now; `""` if it would be allowed.
        The decision gets its line in the audit log.
        """
        try:
            caller = self._caller(document)
            body = document["body"].encode()
            path = document["path"]
        except (KeyError, TypeError, AttributeError, ValueError):
            return "the request that is stored with the pin cannot be read"
        except PeerError as error:
            return str(error)
        headers = {"content-type": "application/json"}
        request = AuthzRequest(
            "POST", path, caller.name, caller.method, headers, body, caller=caller
        )
        verdict = self._plugin.judge(request, may_wait=True).verdict
        return "" if verdict.allow is True else verdict.reason or "denied by policy"

    def _caller(self, document: Mapping[str, Any]) -> Caller:
        """Return the caller of a stored request, for a user of this host with the groups that the
        user has now.

        Raise ValueError if a field has an unexpected type, KeyError or TypeError if one is missing
        or not a list; PeerError if the user's number cannot be looked up or has another name now.
        """
        name, method, uid = document["user"], document["method"], document["uid"]
        container, groups = document["container"], tuple(document["groups"])
        texts = (name, method, container, document["path"], *groups)
        if type(uid) is not int or any([type(each) is not str for each in texts]):
            raise ValueError(
                "a field of the request that is stored with a pin has an unexpected type"
            )
        if method != _PEER:
            return Caller(name, method, groups, uid, container)
        caller = self._names.look_up(uid)
        # A number that was given to somebody else does not inherit what its old user mounted.
        if caller.name != name:
            raise PeerError(
                f"the user id of {name}, who created the container, belongs to another user now: "
                "its current owner must create the container again"
            )
        return caller
