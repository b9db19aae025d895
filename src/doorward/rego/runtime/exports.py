"""The one list of names that generated code may use besides its own functions and constants.

In generated code they are behind `rt.`, where no Rego variable can hide them: `rt.lookup`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from doorward.rego.errors import CALL_ERRORS
from doorward.rego.golang.octets import combine
from doorward.rego.runtime import operations as op
from doorward.rego.runtime.mocks import FunctionMock, ValueMock
from doorward.rego.values import UNDEFINED, distinct, equal, lookup, to_key

__all__ = ["EXPORTS"]

EXPORTS: Final[Mapping[str, Any]] = {
    "rt.CALL_ERRORS": CALL_ERRORS,
    "rt.COUNTED": op.COUNTED,
    "rt.FunctionMock": FunctionMock,
    "rt.KIND_ERRORS": op.KIND_ERRORS,
    "rt.KeyError": KeyError,
    "rt.LOOKUP_ERRORS": op.LOOKUP_ERRORS,
    "rt.MISSING": op.MISSING,
    "rt.NOTHING": op.NOTHING,
    "rt.UNDEFINED": UNDEFINED,
    "rt.ValueMock": ValueMock,
    "rt.as_set": op.as_set,
    "rt.candidates": op.candidates,
    "rt.collect": op.collect,
    "rt.combine": combine,
    "rt.contains": op.contains,
    "rt.contains_pair": op.contains_pair,
    "rt.dict": dict,
    "rt.distinct": distinct,
    "rt.equal": equal,
    "rt.freeze": op.freeze,
    "rt.frozenset": frozenset,
    "rt.getter": op.getter,
    "rt.insert": op.insert,
    "rt.insert_at": op.insert_at,
    "rt.insert_member_at": op.insert_member_at,
    "rt.int": int,
    "rt.is_collection": op.is_collection,
    "rt.len": len,
    "rt.less": op.less,
    "rt.less_equal": op.less_equal,
    "rt.list": list,
    "rt.lookup": lookup,
    "rt.lookup_data": op.lookup_data,
    "rt.lookup_data_path": op.lookup_data_path,
    "rt.lookup_path": op.lookup_path,
    "rt.one": op.one,
    "rt.one_of_function": op.one_of_function,
    "rt.set": set,
    "rt.str": str,
    "rt.template": op.template,
    "rt.template_text": op.template_text,
    "rt.to_key": to_key,
    "rt.type": type,
}
