"""Changes of base data: PUT, PATCH and DELETE of the Data API.

Bodies are JSON whatever they say they are, and never unzipped, as in OPA.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from doorward.bundles.edit import OPERATORS, Operation, StorageError
from doorward.bundles.owners import OwnedError
from doorward.pdp.store import BusyError, Store
from doorward.rego import CompileError, Value
from doorward.rego.golang import object_text
from doorward.rego.shared import Timers
from doorward.rego.tools import read_name, read_patch_path
from doorward.rest.answers import (
    bad_request,
    forbidden,
    json_answer,
    metrics_text,
    no_content,
    not_changed,
)
from doorward.rest.requests import BadRequest, Parameters, any_document, go_kind

__all__ = ["delete_data", "patch_data", "put_data"]


class _ForbiddenError(Exception):
    """An operation changes a document that clients may not change."""


def put_data(
    store: Store, path: tuple[str, ...], parameters: Parameters, body: bytes, *, only_new: bool
) -> Response:
    """Create or replace the document at PATH by the body (PUT /v1/data/PATH); at an index of an
    array it is inserted, as in OPA. With `only_new` an existing document stays, and the answer is
    304.
    """
    timers = Timers(())

    def put() -> bool:
        """Parse the body and store it; return False if `only_new` and the path has data already."""
        with timers.measure("rego_input_parse"):
            value = any_document(body, stays=True)
        return store.put(path, value, text=body, only_new=only_new)

    return _change(put, timers, parameters)


def patch_data(
    store: Store,
    path: tuple[str, ...],
    parameters: Parameters,
    body: bytes,
    *,
    serves: Callable[[tuple[str, ...]], bool] = lambda _path: True,
) -> Response:
    """Apply a JSON Patch below PATH (PATCH /v1/data/PATH), all of it or nothing.

    403 if `serves` is False for the path of an operation.
    """
    timers = Timers(())

    def patch() -> bool:
        """Apply the operations of the body and return True; raise _ForbiddenError for a path that
        is not served.
        """
        with timers.measure("rego_input_parse"):
            operations = _operations(any_document(body, stays=True), path)
        # All of them before any is applied: a patch is done as a whole or not.
        # The access rule has seen the path of the URL only; an operation may lead to a secret below
        # it.
        if not all(serves(tuple(map(str, each.path))) for each in operations):
            raise _ForbiddenError
        store.patch(operations, text=body)
        return True

    return _change(patch, timers, parameters)


def delete_data(store: Store, path: tuple[str, ...], parameters: Parameters) -> Response:
    """Delete the document at PATH (DELETE /v1/data/PATH); 404 if there is none, 400 if it is the
    root or a bundle owns it.
    """

    def delete() -> bool:
        store.delete(path)
        return True

    return _change(delete, Timers(()), parameters)


def _change(change: Callable[[], bool], timers: Timers, parameters: Parameters) -> Response:
    """Run a change of data and return the response: 204 (with `?metrics` 200 and the timers), 304
    if nothing changed, or the refusal.
    """
    try:
        with timers.measure("server_handler"):
            is_changed = change()
    except BadRequest as error:
        return bad_request(str(error))
    except _ForbiddenError:
        return forbidden()
    except (StorageError, OwnedError, BusyError, CompileError) as error:
        return not_changed(error)
    if not is_changed:
        return no_content(304)
    if parameters.flag("metrics"):
        return json_answer(object_text({"metrics": metrics_text(timers)}))
    return no_content(204)


def _operations(document: Value, root: tuple[str, ...]) -> list[Operation]:
    """Return the operations of a JSON Patch, with paths below `root`; [] for null.

    Raise BadRequest if it is malformed.
    """
    if document is None:
        return []
    if not isinstance(document, list):
        raise _no_such_type(document, "value", "[]types.PatchV1")
    return [_operation(each, root) for each in document]


def _operation(document: Value, root: tuple[str, ...]) -> Operation:
    """Return one operation of a JSON Patch, with `root` before its path; raise BadRequest in the
    words of OPA's decoder.
    """
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise _no_such_type(document, "value", "types.PatchV1")
    # Go matches the names of fields in any case; the last one counts.
    fields = {str(key).lower(): value for key, value in document.items()}
    fields_of_operation = {name: fields.get(name) for name in ("op", "path")}
    texts = {name: "" if value is None else value for name, value in fields_of_operation.items()}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise _no_such_type(text, f"struct field PatchV1.{name}", "string")
    operator = OPERATORS.get(str(texts["op"]))
    if operator is None:
        raise BadRequest(f"bad patch operation: {texts['op']}")
    path = (*map(read_name, root), *read_patch_path(str(texts["path"])))
    return Operation(operator, path, fields.get("value"))


def _no_such_type(value: Value, target: str, wanted: str) -> BadRequest:
    """Return the error of Go for a value of another kind than the type `wanted`; `target` says what
    should hold it.
    """
    kind = go_kind(value)
    return BadRequest(f"json: cannot unmarshal {kind} into Go {target} of type {wanted}")
