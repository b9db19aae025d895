"""The databases that filters are tried on."""

from __future__ import annotations

from tests.people.conftest import postgresql

__all__ = ["postgresql"]
