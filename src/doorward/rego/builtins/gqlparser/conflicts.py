"""Fields of a GraphQL query that would have one name in the response and cannot be one.

The comparisons are those of OPA's library, with its order and its memory of compared fragments; a
step of a search that is not needed for a small query is a LimitError in a large one.
"""

from __future__ import annotations

from typing import Final

from doorward.base.records import mutable
from doorward.rego.builtins.gqlparser.nodes import Node, Position
from doorward.rego.builtins.gqlparser.schemas import LEAF, Schema, type_text
from doorward.rego.errors import LimitError

__all__ = ["Conflict", "Conflicts", "Steps"]

MAX_STEPS: Final = 250_000
"""The most steps of the searches in one query; more is a LimitError. OPA has no bound."""

_Fields = dict[str, list[Node]]


class Steps:
    """Counts the steps of searches that can double at each level of fragments."""

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def take(self) -> None:
        """Count one step of the validation of a query; LimitError above `MAX_STEPS`."""
        self.left -= 1
        if self.left < 0:
            raise LimitError(f"GraphQL query needs more than {MAX_STEPS} steps of validation")


@mutable
class Conflict:
    """Two fields of one name in the response, and why they conflict; `inner` are those below."""

    name: str
    position: Position | None
    reason: str = ""
    inner: tuple[Conflict, ...] = ()

    def text(self) -> str:
        """Return the reason of the conflict as the library says it; for conflicts of subfields,
        theirs, joined by `and`.
        """
        if not self.inner:
            return self.reason
        return " and ".join(
            [f'subfields "{each.name}" conflict because {each.text()}' for each in self.inner]
        )


class Conflicts:
    """The search in one query."""

    def __init__(self, schema: Schema, steps: Steps) -> None:
        self.schema = schema
        self.steps = steps
        self.pairs: dict[tuple[str, str], bool] = {}
        """The pairs of fragments that were compared, and whether as exclusive ones."""
        self.compared: set[str] = set()
        """The fragments that were compared with the fields of the present set."""

    def within(self, selections: list[Node]) -> list[Conflict]:
        """Return the conflicts in one set of selections: pairs of fields with the same name in the
        response that cannot be merged, among its own fields, with those of the fragments that it
        spreads, and between these fragments. [] if there is none. LimitError after `MAX_STEPS`
        steps of the whole validation.
        """
        conflicts: list[Conflict] = []
        if not selections:
            return conflicts
        fields, spreads = _parts(selections)
        for fields_of_name in fields.values():
            for index, one in enumerate(fields_of_name):
                for other in fields_of_name[index + 1 :]:
                    conflicts += self._conflict(one, other, are_exclusive=False)
        self.compared = set()
        for index, one in enumerate(spreads):
            self._with_fragment(conflicts, fields, one, are_exclusive=False)
            for other in spreads[index + 1 :]:
                self._of_fragments(conflicts, one, other, are_exclusive=False)
        return conflicts

    def _with_fragment(
        self, conflicts: list[Conflict], fields: _Fields, spread: Node, *, are_exclusive: bool
    ) -> None:
        """Compare `fields` with the fields of the same response name in the fragment that `spread`
        names, and in the fragments that this one spreads, and add the conflicts to `conflicts`.
        Nothing happens for a fragment that is in `compared` (those already compared with this set
        of fields; it is added) or is not defined, and for one whose fields are `fields` themselves.
        LimitError after too many steps.
        """
        self.steps.take()
        if spread["Name"] in self.compared:
            return
        self.compared.add(spread["Name"])
        if spread["Definition"] is None:
            return
        others, spreads = _parts(spread["Definition"]["SelectionSet"])
        if _are_same(fields, others):
            return
        self._between(conflicts, fields, others, are_exclusive=are_exclusive)
        for each in spreads:
            if each["Name"] != spread["Name"]:
                self._with_fragment(conflicts, fields, each, are_exclusive=are_exclusive)

    def _of_fragments(
        self, conflicts: list[Conflict], one: Node, other: Node, *, are_exclusive: bool
    ) -> None:
        """Compare the fields of the two fragments that the spreads `one` and `other` name, and of
        the fragments that these spread, and add the conflicts to `conflicts`. A pair is recorded in
        `pairs` and passed over when it was compared before, unless only as exclusive ones
        (`are_exclusive`: both cannot be selected at once) and now not. Fragments that are the same
        or undefined are passed over. LimitError after too many steps.
        """
        self.steps.take()
        names = one["Name"], other["Name"]
        if names[0] == names[1]:
            return
        known = self.pairs.get(names)
        if known is not None and (are_exclusive or not known):
            return
        self.pairs[names] = self.pairs[names[::-1]] = are_exclusive
        if one["Definition"] is None or other["Definition"] is None:
            return
        fields, spreads = _parts(one["Definition"]["SelectionSet"])
        others, other_spreads = _parts(other["Definition"]["SelectionSet"])
        self._between(conflicts, fields, others, are_exclusive=are_exclusive)
        for each in other_spreads:
            self._of_fragments(conflicts, one, each, are_exclusive=are_exclusive)
        for each in spreads:
            self._of_fragments(conflicts, each, other, are_exclusive=are_exclusive)

    def _between(
        self, conflicts: list[Conflict], fields: _Fields, others: _Fields, *, are_exclusive: bool
    ) -> None:
        """Append the conflicts of each field in `fields` with each one in `others` that has the
        same name in the response. `are_exclusive`: no two of them can be selected at once, so names
        and arguments may differ. LimitError after too many steps.
        """
        for name, fields_of_name in fields.items():
            for one in fields_of_name:
                for other in others.get(name, ()):
                    conflicts += self._conflict(one, other, are_exclusive=are_exclusive)

    def _conflict(self, one: Node, other: Node, *, are_exclusive: bool) -> list[Conflict]:
        """Return the conflict of two fields with the same name in the response, as a list of one,
        or [] if they can be merged or the parent type of either is unknown. They conflict if they
        are different fields or have different arguments (unless `are_exclusive`, or their parents
        are two different object types, so that only one can be selected), if their types conflict,
        or if their subfields do. LimitError after too many steps.
        """
        self.steps.take()
        parents = one["ObjectDefinition"], other["ObjectDefinition"]
        if parents[0] is None or parents[1] is None:
            return []
        definitions = one["Definition"], other["Definition"]
        are_known = definitions[0] is not None and definitions[1] is not None
        are_exclusive = are_exclusive or (
            are_known
            and parents[0]["Name"] != parents[1]["Name"]
            and parents[0]["Kind"] == parents[1]["Kind"] == "OBJECT"
        )
        name, position = one["Alias"] or one["Name"], other.position
        if not are_exclusive:
            if one["Name"] != other["Name"]:
                reason = f'"{one["Name"]}" and "{other["Name"]}" are different fields'
                return [Conflict(name, position, reason)]
            if not _have_same_arguments(one["Arguments"], other["Arguments"]):
                return [Conflict(name, position, "they have differing arguments")]
        if are_known and self._types_conflict(definitions[0]["Type"], definitions[1]["Type"]):
            types = [type_text(each["Type"]) for each in definitions]
            reason = f'they return conflicting types "{types[0]}" and "{types[1]}"'
            return [Conflict(name, position, reason)]
        inner = self._below(one["SelectionSet"], other["SelectionSet"], are_exclusive=are_exclusive)
        return [Conflict(name, position, inner=tuple(inner))] if inner else []

    def _below(
        self, selections: list[Node], others: list[Node], *, are_exclusive: bool
    ) -> list[Conflict]:
        """Return the conflicts between the subfields of two fields with the same response name:
        each field of one side, and of the fragments that it spreads, is compared with those of the
        other side. `are_exclusive`: both cannot be selected at once, so only types count.
        LimitError after too many steps.
        """
        conflicts: list[Conflict] = []
        fields, spreads = _parts(selections)
        other_fields, other_spreads = _parts(others)
        self._between(conflicts, fields, other_fields, are_exclusive=are_exclusive)
        for own, their in ((fields, other_spreads), (other_fields, spreads)):
            for spread in their:
                self.compared = set()
                self._with_fragment(conflicts, own, spread, are_exclusive=are_exclusive)
        for one in spreads:
            for other in other_spreads:
                self._of_fragments(conflicts, one, other, are_exclusive=are_exclusive)
        return conflicts

    def _types_conflict(self, one: Node, other: Node) -> bool:
        """Return True if results of two types cannot stand in one place: only one is a list or may
        be null, or both are scalars or enums with different names. Lists that are in both are taken
        off, whether or not they may be null.
        """
        while one["Elem"] is not None and other["Elem"] is not None:
            one, other = one["Elem"], other["Elem"]
        if (one["Elem"] is None) != (other["Elem"] is None) or one["NonNull"] != other["NonNull"]:
            return True
        types = self.schema.types[one["NamedType"]], self.schema.types[other["NamedType"]]
        are_leaves = types[0]["Kind"] in LEAF and types[1]["Kind"] in LEAF
        return are_leaves and types[0]["Name"] != types[1]["Name"]


def _parts(selections: list[Node]) -> tuple[_Fields, list[Node]]:
    """Return the fields of selections by their names in the response (aliases, if there are some),
    those in inline fragments too, and the spreads of fragments, each in the order of the text.
    """
    fields: _Fields = {}
    spreads: list[Node] = []
    waiting = list(reversed(selections))
    while waiting:
        selection = waiting.pop()
        if selection.struct == "Field":
            fields.setdefault(selection["Alias"] or selection["Name"], []).append(selection)
        elif selection.struct == "InlineFragment":
            waiting += reversed(selection["SelectionSet"])
        else:
            spreads.append(selection)
    return fields, spreads


def _are_same(fields: _Fields, others: _Fields) -> bool:
    """Return True if both have the same field objects under the same names in the same order; equal
    copies do not count.
    """
    if list(fields) != list(others):
        return False
    return all(
        len(fields_of_name) == len(others[name]) and all(map(_is, fields_of_name, others[name]))
        for name, fields_of_name in fields.items()
    )


def _is(one: Node, other: Node) -> bool:
    return one is other


def _have_same_arguments(arguments: list[Node], others: list[Node]) -> bool:
    """Return True for arguments of the same names and values; the items of lists and the fields of
    objects do not count, as in OPA.
    """
    if len(arguments) != len(others):
        return False
    known = {(each["Name"], each["Value"]["Kind"], each["Value"]["Raw"]) for each in others}
    return all(
        (each["Name"], each["Value"]["Kind"], each["Value"]["Raw"]) in known for each in arguments
    )
