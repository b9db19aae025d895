"""Reads of the input, and values that policies compare it with: the material of candidates.

A `Shape` is a location in the input. Rules and variables that stand for one are followed: with
`http := input.attributes.request.http` and `http.method == "GET"`, `method` below that location may
hold "GET". Values come from constants, from data, and from witnesses (texts that match a pattern).
The shape need not be complete: random changes reach what it misses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from doorward.rego import Engine, Value, to_json, to_python
from doorward.rego.shared import from_key
from doorward.rego.tools import (
    Array,
    ArrayComprehension,
    Call,
    Every,
    Expr,
    Module,
    Object,
    Ref,
    Rule,
    Scalar,
    Set,
    SetComprehension,
    SomeIn,
    Term,
    Var,
    With,
    glob_witnesses,
    regex_witnesses,
    walk,
)
from doorward.search.seeds import inputs_of_tests

__all__ = ["CLAIMS", "Material", "Shape", "shape_of"]

CLAIMS: Final = "<claims>"
"""The name in a path that stands for the claims of the token at that place."""

VALUES: Final = 64
"""The maximum number of values, keys and locations that are collected for one location or name."""
EXAMPLES: Final = 400
"""At most this many inputs of tests are used as first inputs."""
CONSTANTS: Final = 400
"""The maximum number of constants and values of data to try at any location."""
NAMES: Final = 16
"""The maximum number of values of a computed key, such as `input[data.names[_]]`, to follow."""
ROUNDS: Final = 4
"""The number of passes in which variables and rules are followed; longer chains are cut."""
DEPTH: Final = 12
"""The maximum number of names in the path of a location."""
PEERS: Final = 8
"""The maximum number of locations that one location is linked with."""
_ELEMENT: Final = "*"
_COMPARISONS: Final = frozenset({"eq", "equal", "neq", "lt", "lte", "gt", "gte", "assign"})
_LINKING: Final = _COMPARISONS - {"assign"} | {"and", "minus"}
_SAME_TEXT: Final = frozenset(
    {"base64.decode", "base64url.decode", "json.unmarshal", "lower", "replace", "split"}
    | {"substring", "to_number", "trim", "trim_left", "trim_prefix", "trim_right", "trim_space"}
    | {"trim_suffix", "upper", "urlquery.decode"}
)
_CLAIMS_AT: Final = {"io.jwt.decode": 1, "io.jwt.decode_verify": 2}
"""For each built-in that decodes tokens, the position of the claims in its answer."""
_JOINED: Final = frozenset({"and", "or", "minus", "array.concat", "union"})
_WITNESSES: Final[dict[str, list[Value]]] = {
    "string": ["a"],
    "number": [0, 1],
    "array": [[], ["a"]],
    "object": [{}, {"a": "a"}],
    "boolean": [True, False],
}


class Shape:
    """A location in the input, and the use that policies make of it. `members`: the locations below
    it by name, `*` for the items of a collection; `values`: values to try; `keys`: the keys of the
    data that it is looked up in, also in `values`; `claims`: the claims of a token at this place,
    verified with one of `secrets`; `peers`: the locations that it is compared with.
    """

    def __init__(self, depth: int = 0) -> None:
        self.depth = depth
        self.members: dict[str, Shape] = {}
        self.values: dict[str, Value] = {}
        self.keys: dict[str, Value] = {}
        self.claims: Shape | None = None
        self.secrets: dict[str, None] = {}
        self.peers: list[Shape] = []

    def below(self, name: str) -> Shape:
        """Return the location one name below this one, which is added if new. At a depth of
        `DEPTH`, return this location itself, so that recursive policies end.
        """
        if name not in self.members:
            if self.depth >= DEPTH:
                return self
            self.members[name] = Shape(self.depth + 1)
        return self.members[name]

    def add(self, values: Iterable[Value]) -> None:
        """Add values that the location may have, each once; those beyond `VALUES` in all are
        dropped.
        """
        for value in values:
            if len(self.values) < VALUES:
                self.values.setdefault(to_json(value), value)

    def add_keys(self, keys: Sequence[str]) -> None:
        """Add the keys of the data in which the location's value is looked up, to its values too;
        ignored beyond `VALUES`.
        """
        self.add(keys)
        self.keys |= {to_json(key): key for key in keys[: VALUES - len(self.keys)]}

    def locations(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Shape]]:
        """Yield all locations below this one with their paths, each before those below it; those in
        a token's claims are below `CLAIMS`. This location itself is not yielded.
        """
        below = self.members if self.claims is None else {**self.members, CLAIMS: self.claims}
        for name, shape in below.items():
            yield (*path, name), shape
            yield from shape.locations((*path, name))

    def link(self, other: Shape) -> None:
        """Record that the values of two locations are compared with each other; ignored beyond
        `PEERS` for each of them.
        """
        for a, b in ((self, other), (other, self)):
            if a is not b and len(a.peers) < PEERS and not any(each is b for each in a.peers):
                a.peers.append(b)


class Material(NamedTuple):
    """The material for inputs: the shape of the input of all versions together, the constants in
    their policies, and inputs from their tests.
    """

    shape: Shape
    constants: list[Value]
    examples: list[Value]


def shape_of(engines: Sequence[Engine]) -> Material:
    """Collect the shape of the input, constants (up to `CONSTANTS`) and examples (up to `EXAMPLES`)
    from the programs of several engines. Evaluates their tests for the examples.
    """
    root = Shape()
    constants: dict[str, Value] = {}
    examples: dict[str, Value] = {}
    tests: set[str] = set()
    for engine in engines:
        reader = _Reader(root, engine)
        for example in [*inputs_of_tests(engine, tests), *reader.examples()]:
            examples.setdefault(to_json(example), example)
        for value in reader.constants():
            if len(constants) < CONSTANTS:
                constants.setdefault(to_json(value), value)
    return Material(root, list(constants.values()), list(examples.values())[:EXAMPLES])


class _Reader:
    """Reads one program into the shape `root`. `_of`: the locations that variables and rules stand
    for, by name.
    """

    def __init__(self, root: Shape, engine: Engine) -> None:
        self._root = root
        self._engine = engine
        self._data = to_python(engine.data)
        self._of: dict[str, list[Shape]] = {}
        self._answers: dict[str, dict[str, Any]] = {}
        """By name, the values that rules and variables may have without regard to the input."""
        self._made_of: dict[int, Shape] = {}
        self._parameters: dict[str, list[Sequence[Term]]] = {}
        self._modules: Sequence[Module] = engine.policies.program.modules
        rules = [(rule, _nodes_of(rule)) for rule in self._rules()]
        for rule, _ in rules:
            if rule.head.args is not None:
                self._parameters.setdefault(_name(rule.head.ref), []).append(rule.head.args)
        # A rule may use a variable or rule that is read later; each round follows one more link.
        for _ in range(ROUNDS):
            for rule, nodes in rules:
                self._read_rule(rule, nodes)

    def constants(self) -> Iterator[Value]:
        """Yield the scalars in the policies, then the keys and scalars in base data, of which there
        are about `CONSTANTS` at most. Repeated ones are yielded again.
        """
        for module in self._modules:
            for node in walk(module):
                if isinstance(node, Scalar):
                    yield node.value
        yield from _scalars(self._data)

    def examples(self) -> Iterator[Value]:
        """Yield the inputs that are written in policies: the first value known of each `with input
        as …`.
        """
        for module in self._modules:
            for node in walk(module):
                if isinstance(node, With) and isinstance(node.target, Var):
                    yield from self._values(node.value)[:1] if node.target.name == "input" else ()

    def _rules(self) -> Iterator[Rule]:
        """Yield the rules of all modules, each followed by its `else` branches."""
        for module in self._modules:
            for rule in module.rules:
                branch: Rule | None = rule
                while branch is not None:
                    yield branch
                    branch = branch.else_rule

    def _read_rule(self, rule: Rule, nodes: Sequence[Expr | Call | Ref]) -> None:
        """Record the locations and values that a rule's body and head read and compare, as far as
        they are known yet: further rounds find more. `nodes`: what `_nodes_of` returns for the
        rule. The rule's name then stands for the locations and values in its head.
        """
        head = rule.head
        for node in nodes:
            if isinstance(node, Expr):
                self._read_expr(node)
            elif isinstance(node, Call):
                self._read_call(node)
            else:
                self._locations(node)
        if head.value is not None:
            name = _name(head.ref)
            self._bind(name, self._locations(head.value))
            if isinstance(head.value, Object):
                for key, value in head.value.items:
                    if isinstance(key, Scalar):
                        self._bind(f"{name}.{key.value}", self._locations(value))
            if head.args is None:
                self._know(name, self._values(head.value))
        elif head.key is not None:
            self._bind(_name(head.ref), self._collections(head.key))
            self._know(_name(head.ref), [self._values(head.key)])

    def _know(self, name: str, values: Iterable[Any]) -> None:
        """Record values that a rule or variable may have; ignored beyond `VALUES`."""
        known = self._answers.setdefault(name, {})
        for value in values:
            if len(known) >= VALUES:
                return
            known.setdefault(to_json(value), value)

    def _bind(self, name: str, locations: Iterable[Shape]) -> None:
        """Record locations that a variable or rule may stand for; ignored beyond `VALUES`."""
        known = self._of.setdefault(name, [])
        for each in locations:
            if len(known) < VALUES and not any(each is other for other in known):
                known.append(each)

    def _read_expr(self, expr: Expr) -> None:
        """Collect from one expression: a bare reference may be true or false; `some … in` and
        `every` bind items. Other expressions are ignored here.
        """
        match expr.term:
            case Ref() | Var() as term:
                for location in self._locations(term):
                    location.add([True, False])
            case SomeIn(key, value, domain):
                self._bind_items(key, value, domain)
            case Every(key, value, domain):
                self._bind_items(key, value, domain)

    def _bind_items(self, key: Term | None, value: Term, domain: Term) -> None:
        """Let the value of `some … in` or `every` stand for the items of a domain; if the value is
        not a variable, record it as an item. With a variable as key, the domain may also be an
        object.
        """
        locations = self._locations(domain)
        if isinstance(value, Var):
            # The parts of a text are in the text.
            is_text = isinstance(domain, Call) and domain.name in _SAME_TEXT
            items = [each if is_text else each.below(_ELEMENT) for each in locations]
            self._bind(value.name, items)
            self._know(value.name, self._items(domain))
        else:
            for location in locations:
                location.below(_ELEMENT).add(self._values(value))
        for location in self._locations(value):
            location.add(self._members(domain))
        if isinstance(key, Var):
            for location in locations:
                location.add([{"a": "a"}])

    def _read_call(self, call: Call) -> None:
        """Record what a call says of locations: a comparison and a membership link both sides and
        add the values of each to the other; a function of the policies compares operands with
        parameters; other built-ins go to `_read_builtin`.
        """
        name, args = call.name, call.args
        if name in _LINKING and len(args) == 2:
            self._link(self._locations(args[0]), self._locations(args[1]))
        if name in _COMPARISONS and len(args) == 2:
            self._compare(args[0], args[1], ordered=name in ("lt", "lte", "gt", "gte"))
            self._compare(args[1], args[0], ordered=name in ("lt", "lte", "gt", "gte"))
        elif name == "internal.member_2" and len(args) == 2:
            for location in self._locations(args[0]):
                location.add(self._members(args[1]))
            items = [each.below(_ELEMENT) for each in self._locations(args[1])]
            for item in items:
                item.add(self._values(args[0]))
            self._link(self._locations(args[0]), items)
        elif name.startswith("data."):
            for parameters in self._parameters.get(name, ()):
                for parameter, arg in zip(parameters, args, strict=False):
                    self._compare(parameter, arg)
                    self._compare(arg, parameter)
        else:
            self._read_builtin(name, args)

    def _all_locations(self, terms: Sequence[Term]) -> list[Shape]:
        return [location for term in terms for location in self._locations(term)]

    def _link(self, left: Sequence[Shape], right: Sequence[Shape]) -> None:
        """Record that the locations on two sides, and their elements, are compared; only the first
        `PEERS` of each side.
        """
        for a in left[:PEERS]:
            for b in right[:PEERS]:
                a.link(b)
                if _ELEMENT in a.members and _ELEMENT in b.members:
                    a.members[_ELEMENT].link(b.members[_ELEMENT])

    def _read_builtin(self, name: str, args: Sequence[Term]) -> None:
        """Add to the locations of a built-in's operands values that suit it: texts with a prefix,
        matches of a pattern, addresses, and values of the operand's type; for `io.jwt.verify_hs…`,
        that the location is a token with this secret.
        """
        texts = [value for arg in args for value in self._values(arg) if isinstance(value, str)]
        for arg in args:
            for location in self._locations(arg):
                if name in ("startswith", "endswith", "contains", "indexof"):
                    location.add([form for t in texts for form in (t, f"{t}a", f"a{t}", f"a{t}a")])
                elif name == "glob.match":
                    location.add([each for text in texts for each in glob_witnesses(text)])
                elif name.startswith("regex."):
                    location.add([each for text in texts for each in regex_witnesses(text)])
                elif name.startswith("net.cidr"):
                    location.add(
                        [each for text in texts for each in (text, text.partition("/")[0])]
                    )
        if name.startswith("io.jwt.verify_hs") and len(args) == 2:
            for location in self._locations(args[0]):
                self._claims(location, args[0])
                self._add_secrets(location, args[1])
        builtin = self._engine.registry.get(name)
        kinds = builtin.signature.args if builtin is not None else ()
        for kind, arg in zip(kinds, args, strict=False):
            for location in self._locations(arg):
                location.add(_WITNESSES.get(kind.kind, []))

    def _compare(self, left: Term, right: Term, *, ordered: bool = False) -> None:
        """Add to the locations of `left` the values of `right`, to which it is compared or bound. A
        variable on the left then stands for the locations and values of `right`, as do the items of
        an array pattern for its items; the operand of `count(…)` may be an array of such a size, if
        it is below 8. With `ordered`, the integers next to each integer are added too.
        """
        match left:
            case Var(name) if name not in ("input", "data"):
                self._bind(name, self._locations(right))
                self._know(name, self._values(right))
            case Array(items):
                self._unpack(items, right)
            case Call() if left.name == "count" and len(left.args) == 1:
                sizes = [n for n in self._values(right) if type(n) is int and 0 <= n < 8]
                for location in self._locations(left.args[0]):
                    location.add([["a"] * n for size in sizes for n in (size, size + 1)])
        if isinstance(right, Array):
            for location in self._locations(left):
                self._link([location.below(_ELEMENT)], self._all_locations(right.items))
        values = self._likely(right)
        if ordered:
            values += [n + d for n in values if type(n) is int for d in (-1, 1)]
        for location in self._locations(left):
            location.add(values)

    def _unpack(self, items: Sequence[Term], right: Term) -> None:
        """Bind the variables of an array pattern to the locations of the term `right` that it is
        equated with; for a call that decodes a token, the payload's variable to the claims.
        """
        if isinstance(right, Call) and right.name in _CLAIMS_AT:
            constraints = right.args[-1]
            claims = [self._claims(each, constraints) for each in self._locations(right.args[0])]
            payload = items[_CLAIMS_AT[right.name]] if len(items) == 3 else None
            if isinstance(payload, Var):
                self._bind(payload.name, claims)
            return
        is_text = isinstance(right, Call) and right.name in _SAME_TEXT
        for item in items:
            if isinstance(item, Var):
                locations = self._locations(right)
                self._bind(
                    item.name, locations if is_text else [p.below(_ELEMENT) for p in locations]
                )

    def _claims(self, location: Shape, constraints: Term) -> Shape:
        """Return the location of the claims of the token at `location`, which is added if new.
        Values in the constraints of `io.jwt.decode_verify` are recorded: issuer and audience as
        values of these claims, the secret at `location`.
        """
        if location.claims is None:
            location.claims = Shape(location.depth + 1)
        pairs = constraints.items if isinstance(constraints, Object) else ()
        for key, term in pairs:
            if isinstance(key, Scalar) and key.value in ("aud", "iss"):
                location.claims.below(str(key.value)).add(self._values(term))
            if isinstance(key, Scalar) and key.value == "secret":
                self._add_secrets(location, term)
        return location.claims

    def _add_secrets(self, location: Shape, term: Term) -> None:
        """Add the texts that a term may have, at most `VALUES`, to the location's secrets, with
        which candidates sign tokens.
        """
        secrets = [each for each in self._values(term) if isinstance(each, str)]
        location.secrets |= dict.fromkeys(secrets[:VALUES])

    def _locations(self, term: Term) -> list[Shape]:
        """Return the input locations that a term may stand for; [] if it depends on no input, or in
        a way that is not followed.
        """
        match term:
            case Var("input"):
                return [self._root]
            case Var(name):
                return list(self._of.get(name, ()))
            case Ref(head, args):
                return self._below(head, args)
            case Call():
                return self._of_call(term)
            case SetComprehension(item) | ArrayComprehension(item):
                return self._collections(item)
        return []

    def _collections(self, item: Term) -> list[Shape]:
        """Return, for each location that the term `item` stands for, a collection whose items are
        at that location: a new `Shape`, and always the same one for a location.
        """
        collections = []
        for location in self._locations(item):
            # No location is dropped, so an identity stands for one of them.
            collection = self._made_of.get(id(location))
            if collection is None:
                collection = self._made_of[id(location)] = Shape(location.depth)
                collection.members[_ELEMENT] = location
            collections.append(collection)
        return collections

    def _of_call(self, call: Call) -> list[Shape]:
        """Return the locations that a call's result may stand for: those of the operand for
        built-ins that keep the text (`lower`), of all operands for those that join, of the member
        for `object.get`, and of the value for a function of the policies; [] if unknown.
        """
        if call.name in _SAME_TEXT and call.args:
            return self._locations(call.args[0])
        if call.name in _JOINED:
            return [location for arg in call.args for location in self._locations(arg)]
        if call.name == "object.get" and len(call.args) == 3:
            return self._below(call.args[0], (call.args[1],))
        if call.name.startswith("data."):
            return list(self._of.get(call.name, ()))
        return []

    def _below(self, head: Term, args: Sequence[Term]) -> list[Shape]:
        """Return the locations at the path `args` below a reference's head, which are added if new;
        at most `VALUES`. A key has its known values, at most `NAMES`; one without any means any
        item.
        """
        if isinstance(head, Var) and head.name == "data":
            locations, args = self._of_rule(args)
        elif isinstance(head, Call) and head.name in _CLAIMS_AT:
            locations = [self._claims(each, head) for each in self._locations(head.args[0])]
            args = args[1:]
        else:
            locations = self._locations(head)
        for arg in args:
            names = [v for v in self._values(arg) if isinstance(v, str)] if locations else []
            if names:
                locations = [each.below(name) for each in locations for name in names[:NAMES]]
            else:
                locations = [location.below(_ELEMENT) for location in locations]
        return locations[:VALUES]

    def _of_rule(self, args: Sequence[Term]) -> tuple[list[Shape], Sequence[Term]]:
        """Return the locations of the first rule on a path below `data`, and the rest of the path;
        ([], ()) if there is none. A location that is used as a key of base data gets the first
        `VALUES` keys there as values.
        """
        name, base = "data", self._data
        for number, arg in enumerate(args):
            if not isinstance(arg, Scalar):
                if isinstance(base, dict):
                    for location in self._locations(arg):
                        location.add_keys(list(base)[:VALUES])
                break
            name = f"{name}.{arg.value}"
            if self._of.get(name):
                return list(self._of[name]), args[number + 1 :]
            base = base.get(arg.value) if isinstance(base, dict) else None
        return [], ()

    def _likely(self, term: Term) -> list[Any]:
        """Return the known values of a term; for an array one value, in which unknown items are
        "a".
        """
        if not isinstance(term, Array):
            return self._values(term)
        return [[(self._values(item) or ["a"])[0] for item in term.items]]

    def _values(self, term: Term) -> list[Any]:
        """Return values that a term may have without regard to the input; [] if there are none or
        they are not easy to determine. Of an array, set or object literal this is one value, made
        of the first value of each part, a set as a list.
        """
        match term:
            case Scalar(value):
                return [value]
            case Array(items) | Set(items):
                parts = [self._values(item)[:1] for item in items]
                return [[part[0] for part in parts]] if all(parts) else []
            case Object(pairs):
                fields = [(self._values(k)[:1], self._values(v)[:1]) for k, v in pairs]
                known = all(isinstance(k[0], str) and v for k, v in fields if k)
                return [{k[0]: v[0] for k, v in fields if k}] if known else []
            case Ref(Var("data"), args):
                return self._values_of_data(args)
            case Ref(Var(name), args):
                return _descend(self._answers_of(name), args)
            case Var(name):
                return self._answers_of(name)
            case Call(args=[owner, key, other]) if term.name == "object.get":
                return [*_descend(self._values(owner), [key]), *self._values(other)]
        return []

    def _answers_of(self, name: str) -> list[Any]:
        return list(self._answers.get(name, {}).values())

    def _values_of_data(self, args: Sequence[Term]) -> list[Any]:
        """Return values at a path below `data` without regard to the input: of the first rule on
        the path that has known ones, or else of base data; a key that is not constant stands for
        every item. [] if there are none.
        """
        name = "data"
        for number, arg in enumerate(args):
            if not isinstance(arg, Scalar):
                break
            name = f"{name}.{arg.value}"
            if name in self._answers:
                return _descend(self._answers_of(name), args[number + 1 :])
        return _descend([self._data], args)

    def _items(self, term: Term) -> list[Any]:
        """Return the possible items of a collection that does not depend on the input; at most
        `VALUES` unless it is written as a literal.
        """
        if isinstance(term, (Array, Set)):
            return [value for item in term.items for value in self._values(item)]
        return [item for value in self._values(term) for item in _items_of(value)][:VALUES]

    def _members(self, term: Term) -> list[Any]:
        """Return the values that members of a collection may have. Of a collection written as a
        literal they are the values of its items; of other terms, all keys and scalars in their
        values, at most `VALUES`.
        """
        if isinstance(term, (Array, Set)):
            return [value for item in term.items for value in self._values(item)]
        if isinstance(term, Object):
            return [value for _, item in term.items for value in self._values(item)]
        return list(_scalars(self._values(term)))[:VALUES]


def _descend(values: Sequence[Any], args: Sequence[Term]) -> list[Any]:
    """Return the values at a path below each of `values`, at most `VALUES`; a key that is not
    constant stands for every item. Values without the key, or with null under it, are dropped.
    """
    for arg in args:
        if isinstance(arg, Scalar):
            below = [value.get(arg.value) for value in values if isinstance(value, dict)]
            values = [value for value in below if value is not None]
        else:
            values = [item for value in values for item in _items_of(value)]
        values = values[:VALUES]
    return list(values)


def _items_of(value: Any) -> list[Any]:
    """Return the first `VALUES` items of an array or values of an object; [] for other values."""
    if isinstance(value, dict):
        return list(value.values())[:VALUES]
    return value[:VALUES] if isinstance(value, list) else []


def _nodes_of(rule: Rule) -> list[Expr | Call | Ref]:
    """Return the expressions, calls and references in a rule's body, key and value, including
    nested ones.
    """
    head = rule.head
    tops = [*rule.body, *[term for term in (head.key, head.value) if term is not None]]
    return [node for top in tops for node in walk(top) if isinstance(node, (Expr, Call, Ref))]


def _name(ref: Ref) -> str:
    """Return the path of a rule up to its first variable as the program names it, with dots and
    beginning with `data`.
    """
    names = ["data"]
    for arg in ref.args:
        if not isinstance(arg, Scalar):
            break
        names.append(str(arg.value))
    return ".".join(names)


def _scalars(value: Any) -> Iterator[Any]:
    """Yield the keys of objects and the scalars in a value, outermost first; ends after about
    `CONSTANTS`.
    """
    waiting = [value]
    for each in waiting:  # it grows on the way
        if isinstance(each, dict):
            yield from each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, frozenset):
            waiting += [from_key(key) for key in each]
        else:
            yield each
        if len(waiting) > CONSTANTS:
            break
