"""The body of a request, read once: authorization, decision, log and masks see the same value.

Where the system policy sees the body, the value that it saw is the value that is decided on, and
the fields of that value have exactly their names, as in OPA. Without such a policy a body is read
as Go's decoder reads it into a struct: names of fields in any case, and nothing after the value.
"""

from __future__ import annotations

from typing import Final

from doorward.pdp.sizes import estimate_memory
from doorward.rego import UNDEFINED, Undefined, Value
from doorward.rest.requests import BadRequest, any_body, fold_fields, go_kind, whole_body

__all__ = ["Body"]


class Body:
    """The body of a request, whose value is read only once."""

    __slots__ = ("_authorized", "_is_authorized", "content_type", "text")

    def __init__(self, text: bytes, content_type: str = "") -> None:
        """Take the decompressed body, `text`, and its content type; nothing is parsed yet."""
        self.text: Final = text
        self.content_type: Final = content_type
        self._authorized: Value | Undefined = UNDEFINED
        self._is_authorized = False

    @property
    def size(self) -> int:
        """The memory in bytes that the value may take, as an estimate."""
        return estimate_memory(self.text)

    def authorize(self) -> Value | Undefined:
        """Return the value of the body for the system policy; `document`, `fields` and `input` use
        the same value afterwards.

        UNDEFINED for an empty body; raise `BadRequest` unless there is exactly one document.
        """
        if self.text:
            self._authorized = whole_body(self.text, self.content_type)
            # INVARIANT: from here on `document` gives this value and parses nothing: what was
            # allowed is what is decided.
            self._is_authorized = True
        return self._authorized

    def document(self) -> Value | Undefined:
        """Return the value of the body; UNDEFINED if it is empty, BadRequest if it is malformed.

        After `authorize` it is the value that the system policy saw.
        """
        if self._is_authorized:
            return self._authorized
        return any_body(self.text, self.content_type)

    def fields(self, type_name: str) -> dict[str, Value] | None:
        """Return the members of the object in the body; None if the body is empty or null. Raise
        BadRequest for another type, except after `authorize`, when None is returned for it, too.

        Names are in lower case, unless the system policy saw the body. `type_name` is OPA's type in
        the error.
        """
        document = self.document()
        if self._is_authorized:
            if not isinstance(document, dict):
                return None
            return {key: value for key, value in document.items() if isinstance(key, str)}
        if isinstance(document, Undefined) or document is None:
            return None
        if not isinstance(document, dict):
            raise BadRequest(
                "body contains malformed input document: json: cannot unmarshal "
                f"{go_kind(document)} into Go value of type {type_name}"
            )
        return fold_fields(document, self.text)

    def input(self) -> Value | Undefined:
        """The `input` of a v1 request; UNDEFINED if it is missing. Without authorization, null
        counts as missing. BadRequest if the body is malformed.
        """
        fields = self.fields("types.DataRequestV1")
        input = UNDEFINED if fields is None else fields.get("input", UNDEFINED)
        return UNDEFINED if input is None and not self._is_authorized else input
