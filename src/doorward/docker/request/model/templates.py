"""Bodies of creations that differ in a few fields from what came before.

Go's encoder writes the fields of such a body in one order: those of the container's configuration,
`HostConfig`, which begins with `Binds`, and `NetworkingConfig`. Clients send some sixty fields of
the last two with each request, nearly always the same. So a body is cut into three texts:

    {"Hostname":"", … ,"HostConfig":{"Binds": | null | ,"ContainerIDFile":"", … }
    head                                        binds  tail

A tail that was read as part of a whole body is a template: it is found by its bytes and not read
again. The texts are read apart only where they give what the whole gives. The head with a `}` is
one JSON object, so that the tail begins on the first level; each of the three is as Go writes it,
so that no key is in it twice; and the fields of head and tail are of the model, under Go's names,
and disjoint. Any other body is read as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from doorward.docker.request.errors import RequestError
from doorward.docker.request.model.readers import Notes, Reader
from doorward.docker.request.schema import FractionError, Struct, read_compact

__all__ = ["Template", "Templates"]

_HOST: Final = b',"HostConfig":{"Binds":'
_BEHIND: Final = b',"ContainerIDFile":'
_OPEN: Final = b'{"HostConfig":{"Binds":null'
_MOST: Final = 64
_LONGEST: Final = 8192
"""Templates that are kept, and bytes of a tail."""
_SLOTS: Final = 256
"""Tails of which it is known that they came: each replaces the one before in its slot."""


class Template:
    """The fields that the tail of a body has, as they are read without binds; a tail is the text
    from the field after `HostConfig.Binds` to the end.

    INVARIANT: nobody changes a value in `members`: it is part of many requests.
    """

    __slots__ = ("members", "names", "prepared", "views")

    def __init__(
        self, names: frozenset[str], members: Mapping[str, Any], views: frozenset[str]
    ) -> None:
        self.names = names
        """The fields that the text has; nulls that mean nothing are no `members`."""
        self.members = members
        self.views = views
        """The views that a policy has to judge."""
        self.prepared: Any = None
        """The views made from the members, equal for all requests of this template; set by the
        module that builds them."""


class Templates:
    """Reads bodies of one struct faster if their tails came before; safe in any number of
    threads.
    """

    def __init__(self, struct: Struct, read: Reader, read_binds: Reader) -> None:
        self._struct = struct
        self._fields = struct.fields.keys()
        self._read = read
        self._read_binds = read_binds
        self._known: dict[bytes, Template] = {}
        self._seen = [0] * _SLOTS

    def __len__(self) -> int:
        return len(self._known)

    def empty(self) -> Templates:
        """Return the same reader without any template."""
        return Templates(self._struct, self._read, self._read_binds)

    def read(self, body: bytes, notes: Notes) -> Any:
        """Return the value of a body whose tail has a template, reading only the text before the
        tail.

        The template is stored in `notes`. None if the tail has no template yet, or if the body must
        be read in full; a tail that comes again gets a template. Raise RequestError if the text
        before the tail is malformed, ambiguous or of other types.
        """
        start = body.find(_HOST)
        end = body.find(_BEHIND, start)
        if start < 0 or end < 0:
            return None
        tail = body[end:]
        # Found by all of its bytes: a tail that differs anywhere is another template, or none.
        template = self._known.get(tail)
        if template is None:
            self._learn(tail)
            return None
        head = read_compact(body[:start] + b"}")
        if type(head) is not dict or not head or not self._fits(head, template):
            return None
        binds = read_compact(body[start + len(_HOST) : end])
        if binds is not None and type(binds) is not list:
            return None
        # None is also the answer of `read_compact` for what it does not read.
        if binds is None and body[start + len(_HOST) : end] != b"null":
            return None
        return self._join(head, template, binds, notes)

    def _fits(self, head: Mapping[str, Any], template: Template) -> bool:
        """Return True if a head has only fields of the structure, and none that the template has
        too.
        """
        names = head.keys()
        return names <= self._fields and names.isdisjoint(template.names)

    def _join(self, head: Any, template: Template, binds: Any, notes: Notes) -> Any:
        """Return the value of a body from its head, its binds and a template's members. Its faults
        and unknown fields, the template, its views and the value's HostConfig are stored in
        `notes`.

        None if the head has fractions, and then `notes` is as before.
        """
        unknown, faults = len(notes.unknown), len(notes.faults)
        try:
            value = {**self._read(head, notes, ""), **template.members}
        except FractionError:
            del notes.unknown[unknown:], notes.faults[faults:]
            return None
        if binds is not None:
            if binds:
                binds = self._read_binds(binds, notes, "HostConfig.Binds")
            # Rebuilt, not changed: the template's own object is part of other requests.
            value["HostConfig"] = {**value["HostConfig"], "Binds": binds}
        notes.views.update(template.views)
        notes.template, notes.host = template, value["HostConfig"]
        return value

    def _learn(self, tail: bytes) -> None:
        """Store a template for a tail when it comes for the second time. If `_MOST` templates are
        stored already, all of them are dropped first.

        Nothing is stored for a tail that is long, unreadable, or has faults or unknown fields.
        """
        # A hash is enough here: with a collision a tail is learned at its first request.
        mark = hash(tail)
        slot = mark % _SLOTS
        if self._seen[slot] != mark:
            self._seen[slot] = mark
            return
        raw = read_compact(_OPEN + tail) if len(tail) <= _LONGEST else None
        if type(raw) is not dict or not raw.keys() <= self._fields:
            return
        names, notes = frozenset(raw), Notes()
        try:
            members = self._read(raw, notes, "")
        except (RequestError, FractionError):
            return
        # Those must be noted for each request, with their paths, and so are read each time.
        if notes.faults or notes.unknown:
            return
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[tail] = Template(names, members, frozenset(notes.views))
