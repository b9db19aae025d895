"""The options of a verification: an object of a policy becomes `chain.Options`."""

from __future__ import annotations

from typing import Final

from doorward.rego.builtins.x509.chain import Options
from doorward.rego.errors import BuiltinError
from doorward.rego.numbers import integer_of
from doorward.rego.values import Key, Value, iterate, sorted_keys

__all__ = ["read_options"]

Object = dict[Key, Value]

_PURPOSES: Final = (
    "KeyUsageAny",
    "KeyUsageServerAuth",
    "KeyUsageClientAuth",
    "KeyUsageCodeSigning",
    "KeyUsageEmailProtection",
    "KeyUsageIPSECEndSystem",
    "KeyUsageIPSECTunnel",
    "KeyUsageIPSECUser",
    "KeyUsageTimeStamping",
    "KeyUsageOCSPSigning",
    "KeyUsageMicrosoftServerGatedCrypto",
    "KeyUsageNetscapeServerGatedCrypto",
    "KeyUsageMicrosoftCommercialCodeSigning",
    "KeyUsageMicrosoftKernelCodeSigning",
)


def read_options(fields: Object, now_ns: int) -> Options:
    """Read the verification options of a policy; `now_ns`, in nanoseconds, holds without
    `CurrentTime`. BuiltinError for an unknown or invalid option.
    `MaxConstraintComparisons` is only checked, and empty `KeyUsages` count as none.
    """
    name, purposes = "", Options(now_ns).purposes
    for key in sorted_keys(fields):
        value = fields[key]
        if key == "DNSName":
            if not isinstance(value, str):
                raise BuiltinError("'DNSName' should be a string")
            name = value.strip('"')
        elif key == "CurrentTime":
            now_ns = _to_integer("CurrentTime", value)
        elif key == "MaxConstraintComparisons":
            _to_integer("MaxConstraintComparisons", value)
        elif key == "KeyUsages":
            purposes = _purposes(value) or purposes
        else:
            raise BuiltinError("invalid key option")
    return Options(now_ns, name, purposes)


def _to_integer(name: str, value: Value) -> int:
    """Return the value of the option `name` as an integer of 64 bits; BuiltinError, with the name,
    if it is not one.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BuiltinError(f"'{name}' should be a number")
    number = integer_of(value)
    if number is None:
        raise BuiltinError(f"'{name}' should be a valid int64 number")
    return number


def _purposes(value: Value) -> tuple[int, ...]:
    """Return Go's numbers of the key usages that an array or set names, in its order; BuiltinError
    for another value or an unknown name.
    """
    if not isinstance(value, (list, frozenset)):
        raise BuiltinError("'KeyUsages' should be an Array or Set")
    names = [item for _, item in iterate(value)]
    wrong = [str(name) for name in names if name not in _PURPOSES]
    if wrong:
        purposes = " ".join(wrong)
        raise BuiltinError(f"invalid entries for 'KeyUsages' found: [{purposes}]")
    return tuple(_PURPOSES.index(str(name)) for name in names)
