"""The last step: backtracking over substitutions.

A substitution maps variables to values, or to terms whose variables another part of the same
equation binds. It is never changed: who binds a variable goes on with a longer one. Whatever can
have several answers is a generator of substitutions, in OPA's order: arrays by index, objects and
sets by the order of keys and members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.oracle.index import left_in, say_the_same
from tests.oracle.plain import COMPREHENSIONS, OutOfScopeError
from tests.oracle.program import Chain, Node, Program
from tests.oracle.scope import name_of

from doorward.rego.builtins.registry.context import Context
from doorward.rego.errors import CONFLICT_ERROR, BuiltinError, EvalError, EvaluationAborted
from doorward.rego.numbers import Number, number_text
from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Ref,
    Rule,
    Scalar,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    Term,
    Var,
)
from doorward.rego.values import (
    UNDEFINED,
    equal,
    from_key,
    iterate,
    make_object,
    make_set,
    sorted_keys,
    to_key,
)

__all__ = ["Evaluation", "World"]

_TERMS: Final = (Scalar, Var, Ref, Call, Array, Set, Object, *COMPREHENSIONS)
_ANY: Final = object()


Bindings = Mapping[str, Any]
Path = tuple[Any, ...]


@dataclass(frozen=True)
class World:
    """What `with` can change, and the answers that hold while it does not."""

    input: Any
    over: Any = UNDEFINED
    """What `with` put below `data`."""
    targets: tuple[Path, ...] = ()
    """Where below `data` a `with` stands: no rules there, no base data."""
    mocks: Mapping[Any, Any] = field(default_factory=dict)
    answers: dict[Any, Any] = field(default_factory=dict)


class Branch(dict[Any, Any]):
    """An object that rules with open places are filling in; no rule's value."""


class Evaluation:
    """One evaluation of a program on base data."""

    def __init__(
        self,
        program: Program,
        data: Any,
        context: Context,
        *,
        strict: bool = False,
        steps: int | None = None,
    ) -> None:
        self.program = program
        self.data = data
        self.context = context
        self.strict = strict
        self.steps = steps
        """Expressions that may still be evaluated; None: as many as there are."""

    # Substitutions

    def _resolved(self, term: Any, env: Bindings) -> Any:
        """A term or value that is not a bound variable."""
        while isinstance(term, Var) and term.name in env:
            term = env[term.name]
        return term.value if isinstance(term, Scalar) else term

    def plug(self, term: Any, env: Bindings) -> Any:
        """The value of a term without references, UNDEFINED where a variable has none yet."""
        term = self._resolved(term, env)
        match term:
            case Var():
                return UNDEFINED
            case Array(items=items):
                values = [self.plug(item, env) for item in items]
                return UNDEFINED if UNDEFINED in map(_mark, values) else values
            case Set(items=items):
                values = [self.plug(item, env) for item in items]
                return UNDEFINED if UNDEFINED in map(_mark, values) else make_set(values)
            case Object(items=pairs):
                actual = [(self.plug(key, env), self.plug(value, env)) for key, value in pairs]
                if any(UNDEFINED in map(_mark, pair) for pair in actual):
                    return UNDEFINED
                return make_object(actual)
            case _:
                assert not isinstance(term, _TERMS), term
                return term

    def unify(self, left: Any, right: Any, env: Bindings, world: World) -> Iterator[Bindings]:
        """The substitutions under which both sides are the same value."""
        left, right = self._resolved(left, env), self._resolved(right, env)
        if isinstance(left, (Ref, *COMPREHENSIONS)):
            for value, after in self.values(left, env, world):
                yield from self.unify(value, right, after, world)
        elif isinstance(right, (Ref, *COMPREHENSIONS)):
            for value, after in self.values(right, env, world):
                yield from self.unify(left, value, after, world)
        elif isinstance(left, Var):
            if not (isinstance(right, Var) and right.name == left.name):
                env = {**env, left.name: right}
            yield env
        elif isinstance(right, Var):
            yield {**env, right.name: left}
        else:
            yield from self._unify_parts(left, right, env, world)

    def _unify_parts(
        self, left: Any, right: Any, env: Bindings, world: World
    ) -> Iterator[Bindings]:
        if isinstance(left, Array | list) and isinstance(right, Array | list):
            first, second = _items(left), _items(right)
            if len(first) == len(second):
                yield from self._unify_all(list(zip(first, second, strict=True)), env, world)
        elif isinstance(left, Object | dict) and isinstance(right, Object | dict):
            a, b = self._fields(left, env), self._fields(right, env)
            others = dict(b)
            # Keys that stand twice in a literal are counted twice, as in OPA.
            if len(a) == len(b) and all(key in others for key, _ in a):
                yield from self._unify_all([(value, others[k]) for k, value in a], env, world)
        else:
            x, y = self.plug(left, env), self.plug(right, env)
            if x is not UNDEFINED and y is not UNDEFINED and equal(x, y):
                yield env

    def _unify_all(
        self, pairs: Sequence[tuple[Any, Any]], env: Bindings, world: World
    ) -> Iterator[Bindings]:
        if not pairs:
            yield env
            return
        for after in self.unify(*pairs[0], env, world):
            yield from self._unify_all(pairs[1:], after, world)

    def _fields(self, term: Any, env: Bindings) -> list[tuple[Any, Any]]:
        if isinstance(term, dict):
            return [(key, term[key]) for key in sorted_keys(term)]
        return [(to_key(self.plug(key, env)), value) for key, value in term.items]

    # Values of terms

    def values(self, term: Term, env: Bindings, world: World) -> Iterator[tuple[Any, Bindings]]:
        """Every value that a term has, each with the substitution that it comes with."""
        match term:
            case Ref(head=Var(name="data"), args=args):
                yield from self._document((), self.program.root, args, env, world)
            case Ref(head=Var(name="input"), args=args):
                yield from self._into(world.input, args, env, world)
            case Ref(head=head, args=args):
                yield from self._into(self.plug(head, env), args, env, world)
            case ArrayComprehension(term=head, body=body):
                yield [self.plug(head, e) for e in self.solve(body, env, world)], env
            case SetComprehension(term=head, body=body):
                yield make_set([self.plug(head, e) for e in self.solve(body, env, world)]), env
            case ObjectComprehension(key=key, value=value, body=body):
                created: dict[Any, Any] = {}
                for e in self.solve(body, env, world):
                    _insert(created, to_key(self.plug(key, e)), self.plug(value, e))
                yield created, env
            case _:
                value = self.plug(term, env)
                assert value is not UNDEFINED, "bodies are in order"
                yield value, env

    def _into(
        self,
        value: Any,
        rest: Sequence[Term],
        env: Bindings,
        world: World,
    ) -> Iterator[tuple[Any, Bindings]]:
        """What the operands of a reference find in a value."""
        if value is UNDEFINED:
            return
        if not rest:
            yield value, env
            return
        key = self.plug(rest[0], env)
        if key is not UNDEFINED:
            yield from self._into(_child(value, key), rest[1:], env, world)
            return
        for name, inner in iterate(value):
            for after in self.unify(rest[0], name, env, world):
                yield from self._into(inner, rest[1:], after, world)

    # Documents below data

    def _base(self, path: Path, world: World) -> Any:
        """Base data at a path, with what `with` put over it."""
        over = _at(world.over, path)
        if _replaced(path, world):
            return over
        stored = _stored(self.data, path)
        if not path and isinstance(stored, dict):
            # All data has none of the server's own documents.
            stored = {key: value for key, value in stored.items() if key != "system"}
        return _merged(over, stored)

    def _document(
        self, path: Path, node: Node | None, rest: Sequence[Term], env: Bindings, world: World
    ) -> Iterator[tuple[Any, Bindings]]:
        """What is found from `path` below `data` on, where no rule stands at `path`."""
        if not rest:
            value = self._extent(path, node, world)
            if value is not UNDEFINED:
                yield value, env
            return
        key = self.plug(rest[0], env)
        if key is not UNDEFINED:
            yield from self._step(path, node, key, rest[1:], env, world)
            return
        keys = [name for name, _ in iterate(self._base(path, world))]
        seen = set(map(to_key, keys))
        keys += [name for name in node.names() if to_key(name) not in seen] if node else []
        for name in keys:
            for after in self.unify(rest[0], name, env, world):
                yield from self._step(path, node, name, rest[1:], after, world)

    def _step(
        self,
        above: Path,
        node: Node | None,
        key: Any,
        rest: Sequence[Term],
        env: Bindings,
        world: World,
    ) -> Iterator[tuple[Any, Bindings]]:
        path = (*above, key)
        child = None if node is None or _replaced(path, world) else node.child(key)
        if child is not None and child.chains:
            yield from self._virtual(path, child, rest, env, world)
        else:
            yield from self._document(path, child, rest, env, world)

    def _extent(self, path: Path, node: Node | None, world: World) -> Any:
        """The whole document: base data and what the rules say below."""
        return _merged(self._base(path, world), self._leaves(path, node, world))

    def _leaves(self, path: Path, node: Node | None, world: World) -> Any:
        if node is None:
            return UNDEFINED
        created = {}
        for key in node.names():
            child = node.child(key)
            assert child is not None
            if not path and key == "system":
                continue
            if child.chains:
                value = next((v for v, _ in self._step(path, node, key, (), {}, world)), UNDEFINED)
            else:
                value = self._leaves((*path, key), child, world)
            if value is not UNDEFINED:
                created[to_key(key)] = value
        return created

    # Rules

    def _virtual(
        self, path: Path, node: Node, rest: Sequence[Term], env: Bindings, world: World
    ) -> Iterator[tuple[Any, Bindings]]:
        """What the rules at `path` say there, or below it as `rest` has it."""
        if node.is_function:
            return
        if not _is_open(node, path):
            head = node.chains[0].head
            whole = self._members if head.key is not None else self._complete
            value = self._once(path, world, lambda: whole(node, world))
            yield from self._into(value, rest, env, world)
            return
        known = self.plug(rest[0], env) if rest else UNDEFINED
        if known is UNDEFINED and (not rest or isinstance(self._resolved(rest[0], env), Var)):
            value = self._once(path, world, lambda: self._object(path, node, (), {}, world))
        elif (to_key(list(path)), "whole") in world.answers:
            value = world.answers[to_key(list(path)), "whole"]
        else:
            # Only what can be at this key is asked: a conflict at another one does not matter.
            value = self._object(path, node, rest, env, world)
        yield from self._into(value, rest, env, world)

    def _once(self, path: Path, world: World, compute: Any) -> Any:
        key = (to_key(list(path)), "whole")
        if key not in world.answers:
            world.answers[key] = compute()
        return world.answers[key]

    def _complete(self, node: Node, world: World) -> Any:
        return self._one(node, (), world, "complete rules must not produce multiple outputs")

    def _one(self, node: Node, args: Sequence[Any], world: World, conflict: str) -> Any:
        """The one value of complete rules or of a function; two different ones are a conflict."""
        result: Any = UNDEFINED
        chains = self._chains(node, args, world)
        # Where all say the same there is nothing to look for after the first answer.
        enough = say_the_same([rule for _, rules in chains for rule in rules])
        for _, rules in chains:
            for value in self._first_answers(rules, args, world):
                if result is not UNDEFINED and not equal(result, value):
                    raise EvalError(CONFLICT_ERROR, conflict)
                result = value if result is UNDEFINED else result
                if enough:
                    return result
        if result is not UNDEFINED:
            return result
        defaults = [chain.rules for chain in node.chains if chain.default]
        return (
            next(self._first_answers(defaults[0], args, world), UNDEFINED) if defaults else result
        )

    def _first_answers(
        self, rules: Sequence[Rule], args: Sequence[Any], world: World
    ) -> Iterator[Any]:
        """The values of the first rule of a chain that has any."""
        for rule in rules:
            is_over = False
            pairs = list(zip(rule.head.args or (), args, strict=True))
            for start in self._unify_all(pairs, {}, world):
                for env in self.solve(rule.body, start, world):
                    is_over = True
                    yield self.plug(rule.head.value, env)
            if is_over:
                return

    def _chains(
        self, node: Node, args: Sequence[Any], world: World, *, below: bool = False
    ) -> list[tuple[Chain, list[Rule]]]:
        """The chains but defaults, each with those of its rules that the index leaves in."""
        nodes = node.below() if below else [node]
        chains = [chain for inner in nodes for chain in inner.chains if not chain.default]
        rules = [chain.rules for chain in chains]
        left = left_in(rules, args, lambda ref: self._read(ref, world))
        return [(chains[number], remaining) for number, remaining in left]

    def _read(self, ref: Ref, world: World) -> Any:
        """The value at a path below which no rule stands; LookupError if there is one."""
        path = tuple(self.plug(arg, {}) for arg in ref.args)
        assert isinstance(ref.head, Var)
        if ref.head.name == "input":
            return _at(world.input, path)
        node: Node | None = self.program.root
        for key in path:
            node = node.child(key) if node is not None else None
            if node is not None and node.chains:
                raise LookupError
        if node is not None:
            raise LookupError
        return self._base(path, world)

    def _members(self, node: Node, world: World) -> Any:
        """The set that `contains` rules make."""
        rules = [rule for _, rules in self._chains(node, (), world) for rule in rules]
        return make_set(
            [self.plug(r.head.key, e) for r in rules for e in self.solve(r.body, {}, world)]
        )

    def _object(
        self, path: Path, node: Node, rest: Sequence[Term], env: Bindings, world: World
    ) -> Any:
        """The object that rules with open places make, as far as it is at `rest`."""
        result = Branch()
        for chain, rules in self._chains(node, (), world, below=True):
            # Of a chain, OPA looks at its first rule alone here.
            rule = rules[0]
            if chain.is_function:
                continue
            places = chain.path[len(path) :]
            pairs = zip(places, [self.plug(term, env) for term in rest], strict=False)
            wanted = [pair for pair in pairs if pair[1] is not UNDEFINED]
            for start in self._unify_all(wanted, {}, world):
                for after in self.solve(rule.body, start, world):
                    keys = [to_key(self.plug(term, after)) for term in places]
                    if rule.head.key is not None:
                        _add_member(result, keys, self.plug(rule.head.key, after))
                    else:
                        _add_value(result, keys, self.plug(rule.head.value, after))
        return _frozen(result)

    # Calls

    def _call(self, term: Call, env: Bindings, world: World) -> Iterator[Bindings]:
        """A call as an expression: its result matches the last operand, or is not false."""
        name = name_of(term)
        if name in ("eq", "assign", "equal") and len(term.args) == 2:
            yield from self.unify(*term.args, env, world)
            return
        arity = min(self.program.arity(name), len(term.args))
        args = [self.plug(arg, env) for arg in term.args[:arity]]
        assert UNDEFINED not in map(_mark, args), "bodies are in order"
        for value in self._results(name, args, world):
            if len(term.args) > arity:
                yield from self.unify(term.args[arity], value, env, world)
            elif value is not False:
                yield env

    def _results(self, name: Any, args: list[Any], world: World) -> Iterable[Any]:
        mock = world.mocks.get(name)
        if isinstance(mock, Mocked):
            if mock.function is None:
                return [mock.value]
            unmocked = replace(world, mocks={}, answers={})
            return self._results(mock.function, args, unmocked)
        if isinstance(name, str):
            return self._builtin(name, args)
        node = self.program.find(name)
        assert node is not None
        key = (name, to_key(args))
        if key not in world.answers:
            world.answers[key] = self._function(node, args, world)
        value = world.answers[key]
        return [] if value is UNDEFINED else [value]

    def _builtin(self, name: str, args: list[Any]) -> Iterable[Any]:
        declared = self.program.registry[name]
        if declared.signature.result is None:
            return [True]
        try:
            first = [self.context] if declared.context else []
            value = declared.call(*first, *args)
            if declared.relation:
                return list(value)
        except EvaluationAborted as error:
            raise EvalError(error.code, str(error)) from None
        except BuiltinError as error:
            if self.strict:
                raise EvalError(error.code, f"{name}: {error}") from None
            return []
        return [] if value is UNDEFINED else [value]

    def _function(self, node: Node, args: list[Any], world: World) -> Any:
        text = "functions must not produce multiple outputs for same inputs"
        return self._one(node, args, world, text)

    # Bodies

    def solve(self, body: Body, env: Bindings, world: World) -> Iterator[Bindings]:
        """The substitutions under which all expressions hold."""
        if not body:
            yield env
            return
        for after in self._expr(body[0], env, world):
            yield from self.solve(body[1:], after, world)

    def _holds(self, body: Body, env: Bindings, world: World) -> bool:
        return next(iter(self.solve(body, env, world)), None) is not None

    def _expr(self, expr: Expr, env: Bindings, world: World) -> Iterator[Bindings]:
        if self.steps is not None:
            self.steps -= 1
            if self.steps < 0:
                raise OutOfScopeError("too many steps")
        if expr.withs:
            world = self._replaced_world(expr, env, world)
        if not expr.negated:
            yield from self._plain(expr, env, world)
        elif next(iter(self._plain(expr, env, world)), None) is None:
            yield env

    def _plain(self, expr: Expr, env: Bindings, world: World) -> Iterator[Bindings]:
        match expr.term:
            case Call() as term:
                yield from self._call(term, env, world)
            case Every() as term:
                if self._every(term, env, world):
                    yield env
            case Not(body=body):
                if not self._holds(body, env, world):
                    yield env
            case And(left=left, right=right):
                if self._holds(left, env, world) and self._holds(right, env, world):
                    yield env
            case Or(left=left, right=right):
                if self._holds(left, env, world) or self._holds(right, env, world):
                    yield env
            case SomeDecl() | SomeIn():
                raise AssertionError("is an equation by now")
            case term:
                for value, after in self.values(term, env, world):
                    if value is not False:
                        yield after

    def _every(self, term: Every, env: Bindings, world: World) -> bool:
        domain = self.plug(term.domain, env)
        if not isinstance(domain, list | dict | frozenset):
            return False
        assert term.key is not None
        key, value = term.key.name, term.value.name
        return all(
            self._holds(term.body, {**env, key: name, value: item}, world)
            for name, item in iterate(domain)
        )

    def _replaced_world(self, expr: Expr, env: Bindings, world: World) -> World:
        input_, over = world.input, world.over
        targets, mocks = list(world.targets), dict(world.mocks)
        for item in expr.withs:
            target = item.target if isinstance(item.target, Ref) else Ref(item.target, ())
            assert isinstance(target.head, Var)
            if any(isinstance(arg, Ref) for arg in target.args):
                raise EvalError(CONFLICT_ERROR, "bad document path")
            path = tuple(self.plug(arg, env) for arg in target.args)
            name = name_of(Call(target, ())) if target.head.name != "input" else ""
            if name and self.program.is_function(name):
                mocks[name] = (
                    Mocked(function=name_of(item.value))
                    if isinstance(item.value, Call)
                    else Mocked(value=self.plug(item.value, env))
                )
                continue
            value = self.plug(item.value, env)
            if target.head.name == "input":
                input_ = _put(input_, path, value)
            else:
                over = _put(over, path, value)
                targets.append(path)
        return World(input_, over, tuple(targets), mocks)


@dataclass(frozen=True)
class Mocked:
    """What stands in for a function: another function, or a value."""

    value: Any = UNDEFINED
    function: Any = None


def _mark(value: Any) -> Any:
    """UNDEFINED or something else, for comparisons by Python."""
    return UNDEFINED if value is UNDEFINED else _ANY


def _items(term: Any) -> Sequence[Any]:
    return term if isinstance(term, list) else term.items


def _child(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        return value.get(to_key(key), UNDEFINED)
    if isinstance(value, list):
        is_index = type(key) is int and 0 <= key < len(value)
        return value[key] if is_index else UNDEFINED
    if isinstance(value, frozenset) and to_key(key) in value:
        return next(from_key(member) for member in value if member == to_key(key))
    return UNDEFINED


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = _child(value, key)
    return value


def _stored(value: Any, path: Path) -> Any:
    """Base data is looked up by the texts of keys: `data.x[1]` finds the key "1", and `data.x["1"]`
    an item."""
    for key in path:
        actual = _child(value, key)
        if actual is UNDEFINED and type(key) in (int, float, Number) and isinstance(value, dict):
            actual = _child(value, number_text(key))
        if actual is UNDEFINED and isinstance(value, list) and _reads_as_number(key):
            actual = _child(value, int(key))
        value = actual
    return value


def _reads_as_number(key: Any) -> bool:
    digits = key[1:] if isinstance(key, str) and key[:1] in ("+", "-") else key
    return isinstance(digits, str) and digits.isascii() and digits.isdigit()


def _replaced(path: Path, world: World) -> bool:
    return any(equal(list(path[: len(target)]), list(target)) for target in world.targets)


def _merged(first: Any, second: Any) -> Any:
    """Objects join; elsewhere the first one counts."""
    if first is UNDEFINED:
        return second
    if not isinstance(first, dict) or not isinstance(second, dict):
        return first
    return {
        key: _merged(first.get(key, UNDEFINED), second.get(key, UNDEFINED))
        for key in [*first, *(key for key in second if key not in first)]
    }


def _put(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    if not isinstance(path[0], str):
        raise EvalError(CONFLICT_ERROR, "bad document path")
    inner = value if isinstance(value, dict) else {}
    return {**inner, path[0]: _put(inner.get(path[0]), path[1:], new)}


def _is_open(node: Node, path: Path) -> bool:
    return any(len(chain.path) > len(path) for chain in node.chains)


def _insert(created: dict[Any, Any], key: Any, value: Any) -> None:
    if key in created and not equal(created[key], value):
        raise EvalError(CONFLICT_ERROR, "object keys must be unique")
    created.setdefault(key, value)


def _branch(created: Branch, keys: Sequence[Any]) -> Branch:
    for key in keys:
        inner = created.setdefault(key, Branch())
        if not isinstance(inner, Branch):
            raise EvalError(CONFLICT_ERROR, "object keys must be unique")
        created = inner
    return created


def _add_value(created: Branch, keys: Sequence[Any], value: Any) -> None:
    position = _branch(created, keys[:-1])
    if isinstance(position.get(keys[-1]), Branch | set):
        raise EvalError(CONFLICT_ERROR, "object keys must be unique")
    _insert(position, keys[-1], value)


def _add_member(created: Branch, keys: Sequence[Any], member: Any) -> None:
    members = _branch(created, keys[:-1]).setdefault(keys[-1], set())
    if not isinstance(members, set):
        raise EvalError(CONFLICT_ERROR, "object keys must be unique")
    members.add(to_key(member))


def _frozen(created: Any) -> Any:
    if isinstance(created, Branch):
        return {key: _frozen(value) for key, value in created.items()}
    return frozenset(created) if type(created) is set else created
