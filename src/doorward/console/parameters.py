"""The parameters of a request as the fields of a dataclass whose fields are all texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

__all__ = ["LONGEST", "check_parameters"]

LONGEST: Final = 200
"""The most characters of a parameter."""


def check_parameters(parameters: Mapping[str, str], cls: type, error: type[Exception]) -> None:
    """Raise `error` for a parameter that is not a field of the dataclass `cls`, or whose value has
    more than `LONGEST` characters.
    """
    names = {each.name for each in dataclasses.fields(cls)}
    for name, value in parameters.items():
        if name not in names:
            known = ", ".join(sorted(names))
            raise error(f"unknown query parameter: {name[:LONGEST]}: use one of {known}")
        if len(value) > LONGEST:
            raise error(f"the query parameter {name} is longer than {LONGEST} characters")
