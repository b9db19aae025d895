"""Options are one immutable value, and the engine's keyword arguments are its fields."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import get_type_hints

import pytest

from doorward.rego import Engine, Environment, Options, PartialOptions
from doorward.rego.options import OptionArguments
from doorward.rego.partial.options import PartialArguments
from doorward.rego.saved.programs import SavedPrograms
from doorward.rego.shared import Capabilities, Schemas, Timers


def test_the_keyword_arguments_are_the_fields() -> None:
    assert [field.name for field in fields(Options)] == list(OptionArguments.__annotations__)
    # What is under TYPE_CHECKING there.
    names = {
        "Capabilities": Capabilities,
        "Schemas": Schemas,
        "Timers": Timers,
        "SavedPrograms": SavedPrograms,
    }
    hints = [get_type_hints(kind, localns=names) for kind in (OptionArguments, Options)]
    assert hints[0] == hints[1]


def test_the_keyword_arguments_of_partial_evaluation_are_the_fields() -> None:
    assert [field.name for field in fields(PartialOptions)] == list(
        PartialArguments.__annotations__
    )
    hints = [get_type_hints(kind) for kind in (PartialArguments, PartialOptions)]
    assert hints[0] == hints[1]


def test_options_never_change() -> None:
    options = Options()
    with pytest.raises(FrozenInstanceError):
        options.v0 = True  # type: ignore[misc] # that is the point


def test_what_is_no_option_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        Engine(colour="red")  # type: ignore[call-arg] # that is the point


def test_a_file_may_have_a_version_of_its_own() -> None:
    options = Options(v0=True, rego_versions={"new.rego": 1})
    assert options.is_v0("old.rego")
    assert not options.is_v0("new.rego")
    assert Options(rego_versions={"old.rego": 0}).is_v0("old.rego")


def test_capabilities_limit_built_ins_and_hosts() -> None:
    allowed = Capabilities(frozenset({"count"}), allow_net=frozenset({"a.example"}))
    options = Options(capabilities=allowed)
    assert [builtin.name for builtin in options.allowed_registry()] == ["count"]
    assert options.allowed_environment().allow_net == frozenset({"a.example"})
    free = Options(environment=Environment(allow_net=None))
    assert free.allowed_registry() is free.registry
    assert free.allowed_environment() is free.environment
