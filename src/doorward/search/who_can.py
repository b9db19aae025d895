"""Access questions: the values of an unknown part of the input for which a query holds.

    query + input ─partial evaluation─▶ conjunctions ─bounds─▶ candidates ─decide─▶ Grant
                                              └─ without a bound ─▶ the condition of everybody else

All data stays unknown in partial evaluation. So a conjunction names the documents that it looks
values up in, and their keys are the candidates. A conjunction that bounds no values is displayed as
a condition, unless the known input refutes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from typing import Any, Final, TypeAlias

from doorward.base.records import record, replace
from doorward.rego import (
    UNDEFINED,
    CompileError,
    Engine,
    EvalError,
    Query,
    Undefined,
    Value,
    to_rego,
)
from doorward.rego.shared import Mask, to_key
from doorward.rego.tools import (
    Array,
    Body,
    Call,
    Expr,
    Module,
    Node,
    Object,
    Ref,
    Rule,
    Scalar,
    Set,
    Term,
    Var,
    format_tree,
    path_text,
    rewrite,
    walk,
)
from doorward.search.patience import has_result, patiently
from doorward.search.support import add_support, reparse
from doorward.search.wording import in_words, name_variables

__all__ = [
    "ALL",
    "Access",
    "Condition",
    "Grant",
    "Path",
    "Unknowns",
    "input_text",
    "put",
    "who_can",
]

MOST: Final = 20_000
"""At most this many candidates are decided."""
SECONDS: Final = 10.0
"""The limit of partial evaluation, and of all lookups of candidates, in seconds of processor
time.
"""
EACH: Final = 0.5
"""The limit of one decision, in seconds."""
WIDEST: Final = 120
"""In a reason, the value of a variable with more characters than this is cut."""
NAMESPACE: Final = "doorward_access"
_CONFLICT: Final = "eval_conflict_error"
_ANSWERED: Final = frozenset({"time.now_ns", "io.jwt.decode_verify"})
"""Impure built-ins that depend only on the time, which is the same for all decisions here."""
_KEYED: Final = ("io.jwt.", "crypto.")
"""The prefixes of the names of built-ins that take keys."""
_EQUATIONS: Final = frozenset({"eq", "equal"})

Path: TypeAlias = tuple[str, ...]
"""The names of a path below `input`."""


@record
class Grant:
    """Values of the unknown paths, in their order, for which the query holds. `reasons`: one text
    for each definition that holds, with its position and the values of its variables.
    """

    values: tuple[Value, ...]
    reasons: tuple[str, ...]


@record
class Condition:
    """A condition under which any other subject is allowed: all of `texts`, expressions in Rego,
    hold. `key`: the document with the key that verifies the token whose `claims` the texts name; ""
    if no token is read.
    """

    texts: tuple[str, ...]
    key: str = ""


@record
class Access:
    """The subjects that are allowed. `unknown`: the reason why there may be others than the grants
    and conditions name; "" if there are none. `candidates`: the number of inputs that were decided.
    """

    grants: tuple[Grant, ...]
    conditions: tuple[Condition, ...]
    unknown: str
    candidates: int


@record
class Unknowns:
    """An input of which some parts are not known; it has no values at these paths."""

    input: Value
    paths: tuple[Path, ...]

    def is_known(self, path: Sequence[Any]) -> bool:
        """Return True if nothing at, above or below an input path is unknown."""
        names = tuple(path)
        return not any(
            names[: len(each)] == each or each[: len(names)] == names for each in self.paths
        )

    def with_values(self, values: Sequence[Value]) -> Value:
        """Return the input with these values at the unknown paths."""
        input = self.input
        for path, value in zip(self.paths, values, strict=True):
            input = put(input, path, value)
        return input


ALL: Final = Unknowns({}, ((),))
"""The unknowns of an input about which nothing is known."""


def who_can(
    engine: Engine,
    query: str,
    given: Value,
    paths: Sequence[Path],
    *,
    now_ns: int,
    refutes: Callable[[Engine, Sequence[Module], Body, Unknowns], bool] = lambda *_: False,
) -> Access:
    """Return the values at `paths` of the input for which `query` holds at the time `now_ns`
    (nanoseconds since the epoch); values of `given` at these paths are ignored. A conjunction that
    bounds no values, or allows more than `MOST`, becomes a condition, unless `refutes` returns
    True: it is proved impossible. `refutes` gets the engine with the support modules. CompileError
    for an invalid query; `Access.unknown` names a failed evaluation, and more than `MOST`
    candidates in all, of which only the first are decided.
    """
    for path in paths:
        given = put(given, path, UNDEFINED)
    unknowns = Unknowns(given, tuple(paths))
    documents = engine.documents(query)
    base = [path_text(path[1:]) for path in documents.base if path[0] == "data" and path[1:]]
    names = list(map(input_text, paths))
    try:
        partial = patiently(
            lambda deadline: engine.partial(
                query,
                [*names, *base],
                given,
                namespace=NAMESPACE,
                only_truth=True,
                keep_else=True,
                now_ns=now_ns,
                deadline=deadline,
            ),
            SECONDS,
        )
    except EvalError as error:
        return Access((), (), str(error.diagnostics[0].message), 0)
    try:
        support = reparse(partial.support, NAMESPACE)
        engine = add_support(engine, support)
    except CompileError as error:
        # A known value can have a wrong type for a rule; then the residual does not compile.
        message = str(error.diagnostics[0].message)
        return Access((), (), f"the residual of the query does not compile: {message}", 0)
    modules = [*support.values()]
    reasons = []
    if partial.definitions is not None:
        reasons.append("the query has other values than true and false")
    impure = sorted(_impure_builtins(engine) - _ANSWERED)
    if impure:
        reasons.append(f"the policies call {impure[0]}, whose answers are not known")
    candidates: dict[Any, tuple[Value, ...]] = {}
    conditions: list[Condition] = []
    for body in partial.queries:
        left = _undecided(engine, body, unknowns, now_ns)
        if left is None:
            continue
        bounds = [_possible_values(engine, body, path) for path in unknowns.paths]
        known = [each for each in bounds if each is not None]
        if len(known) == len(bounds) and prod(map(len, known)) <= MOST:
            for values in product(*known):
                candidates.setdefault(tuple(map(to_key, values)), values)
        elif not refutes(engine, modules, body, unknowns):
            condition = _condition(left, engine, modules)
            if condition not in conditions:
                conditions.append(condition)
    if len(candidates) > MOST:
        reasons.append(f"there are more than {MOST} candidates")
    decided = list(islice(candidates.values(), MOST))
    why = _Reasons(engine, query)
    prepared = engine.prepare(query, deadline=EACH)
    grants = []
    for values in decided:
        input = unknowns.with_values(values)
        try:
            if _holds(prepared, input, now_ns):
                grants.append(Grant(values, why.of(input, now_ns)))
        except EvalError as error:
            # A conflict of rules is an answer for this input, and not a grant.
            if error.diagnostics[0].code != _CONFLICT:
                reasons.append(f"a decision failed: {error.diagnostics[0].message}")
    return Access(tuple(grants), tuple(conditions), "; ".join(dict.fromkeys(reasons)), len(decided))


def input_text(path: Path) -> str:
    """Return a path below the input as a reference: `input.a["b c"]`."""
    return "input" + path_text(path).removeprefix("data")


def put(document: Any, path: Path, value: Any) -> Any:
    """Return a document with another value at a path; the original is not changed. UNDEFINED
    removes the value, and gives {} for the empty path; otherwise anything on the path that is not
    an object is replaced by one.
    """
    if not path:
        return {} if value is UNDEFINED else value
    fields = document if isinstance(document, dict) else {}
    name, rest = path[0], path[1:]
    if value is UNDEFINED and (name not in fields or (rest and not isinstance(fields[name], dict))):
        return document
    if value is UNDEFINED and not rest:
        return {key: item for key, item in fields.items() if key != name}
    return {**fields, name: put(fields.get(name), rest, value)}


def _impure_builtins(engine: Engine) -> set[str]:
    """Return the names of the impure built-ins that the policies call anywhere."""
    names = {
        node.name
        for module in engine.policies.program.modules
        for node in walk(module)
        if isinstance(node, Call)
    }
    builtins = [engine.registry.get(name) for name in names]
    return {each.name for each in builtins if each is not None and not each.pure}


def _holds(query: Query, input: Value, now_ns: int) -> bool:
    return has_result(query, input, EACH, now_ns=now_ns)


def _text(expr: Expr) -> str:
    return format_tree((expr,)).strip()


# Conjunctions


def _undecided(engine: Engine, body: Body, unknowns: Unknowns, now_ns: int) -> list[Expr] | None:
    """Return the expressions of a conjunction that depend on the unknown part of the input; None if
    one of the others does not hold, so that the conjunction cannot hold.
    """
    left = []
    for expr in body:
        outcome = _decide(engine, expr, unknowns, now_ns)
        if outcome is False:
            return None
        if outcome is None:
            left.append(expr)
    return left


def _decide(engine: Engine, expr: Expr, unknowns: Unknowns, now_ns: int) -> bool | None:
    """Return True if an expression holds for the known input and False if it does not. None if that
    depends on the unknown, if the expression holds for some values of its variables, or if it
    cannot be evaluated alone, as with `with` or with variables behind `not`.
    """
    if expr.withs or (expr.negated and _has_variables(expr)):
        return None
    try:
        query = engine.prepare(_text(expr), deadline=EACH)
        if not all(map(unknowns.is_known, query.input_paths)):
            return None
        holds = _holds(query, unknowns.input, now_ns)
    except (CompileError, EvalError):
        return None
    return None if holds and _has_variables(expr) else holds


def _has_variables(expr: Expr) -> bool:
    """Return True if an expression has variables other than `input` and `data`."""
    operators = {id(node.operator.head) for node in walk(expr) if isinstance(node, Call)}
    names = {n.name for n in walk(expr) if isinstance(n, Var) and id(n) not in operators}
    return bool(names - {"input", "data"})


# Bounds: values that a part of the input must be one of


def _possible_values(engine: Engine, body: Body, path: Path) -> list[Value] | None:
    """Return the values at an input path with which a conjunction can hold: the shortest list that
    one of its expressions sets. None if none of them limits the path to a list of values.
    """
    best: list[Value] | None = None
    # Variables and the input have one value in the whole conjunction: its other expressions only
    # shorten the list.
    around = [text for expr in body if (text := _text_of_found(expr, path, engine))]
    for expr in body:
        if expr.negated or expr.withs or not isinstance(expr.term, (Ref, Call)):
            continue
        for text in _lookups(expr.term, path, engine):
            values = _values(engine, "; ".join([text, *around]))
            # All together they may fail or take too long; the lookup alone limits the path as well.
            if values is None:
                values = _values(engine, text)
            if values is not None and (best is None or len(values) < len(best)):
                best = values
    return best


def _text_of_found(expr: Expr, path: Path, engine: Engine) -> str:
    """Return the text of an expression with the variable `found` in place of the input path. "" if
    it is negated, has a `with`, is neither a reference nor a call, reads other input, or calls an
    impure built-in.
    """
    if expr.negated or expr.withs or not isinstance(expr.term, (Ref, Call)):
        return ""
    if any(isinstance(n, Call) and not _is_pure(n.name, engine) for n in walk(expr)):
        return ""
    size = len(path)

    def put_found(node: Node) -> Node:
        """Replace a reference to the path, or into it."""
        if not isinstance(node, Ref) or _input_path(Ref(node.head, node.args[:size])) != path:
            return node
        rest = node.args[size:]
        return Ref(Var("found"), rest) if rest else Var("found")

    changed = rewrite(expr, put_found)
    reads_input = any(node == Var("input") for node in walk(changed))
    return "" if reads_input else _text(changed)


def _is_pure(name: str, engine: Engine) -> bool:
    builtin = engine.registry.get(name)
    return builtin is not None and builtin.pure


def _values(engine: Engine, text: str) -> list[Value] | None:
    """Return the different values of the variable `found` in the solutions of a query text. None if
    the query reads the input, does not compile or fails.
    """
    try:
        query = engine.prepare(text)
        if query.input_paths:
            return None
        column, count = query.variables.index("found"), len(query.variables)
        solutions = patiently(
            lambda deadline: query.rows_of(query.evaluation(deadline=deadline)), SECONDS
        )
        rows = [row for row in solutions if all(each is not False for each in row[count:])]
    except (CompileError, EvalError):
        return None
    return list({to_key(row[column]): row[column] for row in rows}.values())


def _lookups(term: Term, path: Path, engine: Engine) -> Iterator[str]:
    """Yield queries whose solutions for the variable `found` are the only values at an input path
    with which the expression `term` can hold: `input.x == data.a` gives `found = data.a`, `input.x
    in data.b` gives `some found in data.b`. Nothing if the term does not limit the path so.
    """
    match term:
        case Call(args=(left, right)) if term.name in _EQUATIONS:
            for leaf, other in ((left, right), (right, left)):
                if _input_path(leaf) == path and (text := _source(other, engine)):
                    yield f"found = {text}"
        case Call(args=(leaf, collection)) if term.name == "internal.member_2":
            if _input_path(leaf) == path and (text := _source(collection, engine)):
                yield f"some found in {text}"
    yield from _lookups_within(term, path, engine)


def _lookups_within(term: Term, path: Path, engine: Engine) -> Iterator[str]:
    """Yield queries whose solutions for the variable `found` are the only values at an input path
    with which a term has a value, which may be false: `data.users[input.x]` gives `_ =
    data.users[found]`. Equations and memberships limit nothing here.
    """
    match term:
        # If an operand or item is undefined, so is the term around it.
        case Call(args=args):
            for arg in args:
                yield from _lookups_within(arg, path, engine)
        case Array(items=items) | Set(items=items):
            for item in items:
                yield from _lookups_within(item, path, engine)
        case Ref(args=args):
            for number, arg in enumerate(args):
                if _input_path(arg) == path:
                    upto = Ref(term.head, (*args[:number], Var("found")))
                    if text := _source(upto, engine):
                        # As an operand, false is a value; as an expression it would not hold.
                        yield f"_ = {text}"
                yield from _lookups_within(arg, path, engine)


def _input_path(term: Term) -> Path | None:
    """Return the names of a path below `input`, () for `input` itself; None for other terms, and
    for a path with an operand that is not a constant string.
    """
    if not isinstance(term, Ref) or term.head != Var("input"):
        return None
    names = [arg.value for arg in term.args if isinstance(arg, Scalar)]
    if len(names) != len(term.args):
        return None
    texts = tuple(name for name in names if isinstance(name, str))
    return texts if len(texts) == len(names) else None


def _source(term: Term, engine: Engine) -> str:
    """Return the text of a constant, or of base data with computed keys as variables:
    `data.users[any_0]`. "" for other terms, and for paths with rules.
    """
    if isinstance(term, (Scalar, Array, Object, Set)):
        is_constant = not any(isinstance(n, (Var, Ref, Call, Expr)) for n in walk(term))
        return _text(Expr(term)) if is_constant else ""
    if not isinstance(term, Ref) or term.head != Var("data"):
        return ""
    prefix: list[str | int] = []
    for arg in term.args:
        if not isinstance(arg, Scalar) or not isinstance(arg.value, (str, int)):
            break
        prefix.append(arg.value)
    # A rule may depend on the unknown input: its values here need not be all.
    if not prefix or engine.has_rules(prefix):
        return ""
    args = [
        arg if isinstance(arg, (Scalar, Var)) else Var(f"any_{number}")
        for number, arg in enumerate(term.args)
    ]
    return _text(Expr(Ref(term.head, tuple(args))))


# Conditions


def _condition(body: Sequence[Expr], engine: Engine, support: Sequence[Module]) -> Condition:
    """Return a conjunction as a condition for users. The claims of a verified token are named
    `claims`, generated variables get short names, and keys are masked.
    """
    names: dict[str, str] = {}
    keys: dict[str, None] = {}
    left = []
    for expr in body:
        verified = _verification(expr)
        if verified is None:
            left.append(expr)
            continue
        names[verified[0]] = "claims"
        keys[verified[1]] = None

    def named(node: Node) -> Node:
        return Var(names.get(node.name, node.name)) if isinstance(node, Var) else node

    # `Condition.key` already says that a token was verified.
    flags = {Var(each) for each in _flags(body)}
    named_exprs = name_variables([rewrite(expr, named) for expr in left if expr.term not in flags])

    def write(expr: Expr) -> str:
        return " ".join(_text(_infix(expr)).split())

    texts = dict.fromkeys(in_words(named_exprs, support, NAMESPACE, write))
    # Operands of cryptographic calls may be keys that are written in the policy: they are masked.
    calls = [node for expr in body for node in walk(expr) if isinstance(node, Call)]
    terms = [arg for call in calls if call.name.startswith(_KEYED) for arg in call.args]
    terms += [value for each in terms if isinstance(each, Object) for _, value in each.items]
    keys_in_policy = [each.value for each in terms if isinstance(each, Scalar)]
    mask = Mask(engine.data, {"secret": keys_in_policy})
    return Condition(tuple(map(mask.text, texts)), ", ".join(map(mask.text, keys)))


def _verification(expr: Expr) -> tuple[str, str] | None:
    """Return the claims variable and the text of the key of an equation with
    `io.jwt.decode_verify`; None for other expressions.
    """
    match expr.term:
        case Call(args=(left, right)) if expr.term.name in _EQUATIONS and not expr.negated:
            for pattern, call in ((left, right), (right, left)):
                if not isinstance(call, Call) or call.name != "io.jwt.decode_verify":
                    continue
                if isinstance(pattern, Array) and len(pattern.items) == 3:
                    claims = pattern.items[2]
                    if isinstance(claims, Var):
                        return claims.name, _key(call.args[1])
    return None


def _flags(body: Sequence[Expr]) -> Iterator[str]:
    """Yield the variables that get the first item of token verifications: true for a valid
    token.
    """
    for expr in body:
        if _verification(expr) is not None and isinstance(expr.term, Call):
            pattern = next(arg for arg in expr.term.args if isinstance(arg, Array))
            flag = pattern.items[0]
            if isinstance(flag, Var):
                yield flag.name


def _key(constraints: Term) -> str:
    """Return the reference to the key in the constraints of a token verification; `a key in the
    policy` if it is written there, since it is not displayed.
    """
    if isinstance(constraints, Object):
        for name, value in constraints.items:
            if isinstance(name, Scalar) and name.value in ("secret", "cert"):
                return _text(Expr(value)) if isinstance(value, Ref) else "a key in the policy"
    return _text(Expr(constraints)) if isinstance(constraints, Ref) else "a key in the policy"


_SIGNS: Final[Mapping[str, str]] = {
    "eq": "equal",
    "equal": "equal",
    "neq": "neq",
    "lt": "lt",
    "lte": "lte",
    "gt": "gt",
    "gte": "gte",
}


def _infix(expr: Expr) -> Expr:
    """Return a comparison as infix, with `==` for `=`, and an equation with a scalar on its right;
    other expressions unchanged.
    """
    call = expr.term
    if not isinstance(call, Call) or call.name not in _SIGNS or len(call.args) != 2:
        return expr
    operator = Ref(Var(_SIGNS[call.name]), ())
    args = call.args
    if _SIGNS[call.name] == "equal" and isinstance(args[0], Scalar):
        args = args[::-1]
    return replace(expr, term=Call(operator, args, infix=True))


# Reasons


class _Reasons:
    """The definitions of the document that `query` names, prepared as queries, to say which of them
    hold for an input. Default rules are left out.
    """

    def __init__(self, engine: Engine, query: str) -> None:
        self._mask = Mask(engine.data)
        self._rules: list[tuple[str, Query]] = []
        for tree in engine.trees.values():
            package = ".".join(tree.package.path)
            imports = [_import_text(tree, number) for number in range(len(tree.imports))]
            for rule in tree.rules:
                if not rule.default and f"data.{package}.{rule.head.ref.span.text}" == query:
                    self._add(engine, rule, f"data.{package}", imports)

    def _add(self, engine: Engine, rule: Rule, package: str, imports: list[str]) -> None:
        """Prepare a definition's body as a query; a body that cannot be compiled alone is
        skipped.
        """
        where = f"{rule.span.file}:{rule.span.row}"
        try:
            body = engine.prepare(
                format_tree(rule.body), deadline=EACH, package=package, imports=imports
            )
        except CompileError:
            return  # the body needs more of its module than the imports
        self._rules.append((where, body))

    def of(self, input: Value, now_ns: int) -> tuple[str, ...]:
        """Return one text for each definition that holds for an input: ``policy.rego:12, role is
        "admin"``. A definition whose evaluation fails is left out.
        """
        return tuple(self._texts(input, now_ns))

    def _texts(self, input: Value, now_ns: int) -> Iterator[str]:
        """Yield, for each definition that holds for the input, its file and row and the values of
        its named variables in the first solution. Secrets are masked. A definition whose evaluation
        fails is left out.
        """
        for where, query in self._rules:
            try:
                rows = _rows(query, input, now_ns)
            except EvalError:
                continue
            count = len(query.variables)
            holding = (row for row in rows if all(each is not False for each in row[count:]))
            for row in islice(holding, 1):
                names = [name for name in query.variables if not name.startswith("_")]
                values = [
                    f"{name} is {self._show(row[query.variables.index(name)], name)}"
                    for name in names
                ]
                yield ", ".join([where, *values])

    def _show(self, value: Value | Undefined, name: str) -> str:
        """Return a value in Rego with secrets masked, cut at `WIDEST` characters; `undefined` for
        UNDEFINED.
        """
        text = "undefined" if value is UNDEFINED else to_rego(self._mask.value(value, name))
        return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _rows(query: Query, input: Value, now_ns: int) -> list[tuple[Value, ...]]:
    """Return the rows of a query's results for an input: the values of its variables, then of its
    expressions. EvalError if the evaluation fails or takes too long.
    """

    def solve(deadline: float) -> list[tuple[Value, ...]]:
        return query.rows_of(query.evaluation(input, now_ns=now_ns, deadline=deadline))

    return patiently(solve, EACH)


def _import_text(tree: Module, number: int) -> str:
    return tree.imports[number].span.text.removeprefix("import ").strip()
