"""References below `data`: base data, rules, and what of them is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from doorward.rego.builtins.registry import Builtin
from doorward.rego.errors import CONFLICT_ERROR, EvalError
from doorward.rego.partial.conflicts import conflicts_of_branches, find_conflict
from doorward.rego.partial.context import SearchContext, Site, Solutions
from doorward.rego.partial.core import (
    DATA,
    Comprehension,
    Constant,
    Expr,
    Ref,
    Rule,
    Term,
    Var,
    object_,
    parts,
    set_,
)
from doorward.rego.partial.program import Node
from doorward.rego.partial.state import Bindings, apply, as_value, plug
from doorward.rego.partial.support import add_complete, add_partial, known_documents
from doorward.rego.runtime.evaluation import merge, without_system
from doorward.rego.runtime.operations import (
    freeze,
    insert,
    insert_at,
    insert_member_at,
    lookup_data,
)
from doorward.rego.source import Span
from doorward.rego.values import UNDEFINED, Value, equal, from_key, iterate, lookup, to_key

Path = tuple[Term, ...]


class Reach:
    """Tells if the evaluation of a term, rule or expression would leave something in the residual.
    The answers for rules are cached.
    """

    def __init__(self, search: SearchContext) -> None:
        self._search = search
        self._rules: dict[int, dict[int, bool]] = {}

    def term(self, term: Term, bindings: Bindings | None) -> bool:
        """Return True if the evaluation of the term may reach an unknown document or variable, so
        that something is left in the residual. `bindings` are those in which its variables are
        read, None inside a rule, where a variable of the caller cannot be met and none counts as
        unknown.
        """
        search = self._search
        match term:
            case Constant():
                return False
            case Var():
                return bindings is not None and search.unknowns.inside(term, bindings)
            case Ref(items):
                if type(items[0]) is Var and self._document(items, bindings):
                    return True
                return any(self.term(item, bindings) for item in items)
            case Comprehension(_, key, head, body):
                inner = (head,) if key is None else (key, head)
                return any(self.term(part, bindings) for part in inner) or any(
                    self.expr(expr, bindings) for expr in body
                )
        return any(self.term(part, bindings) for part in parts(term))

    def _document(self, path: Path, bindings: Bindings | None) -> bool:
        """Return True if the document at a path, or a rule that can be reached through it, may
        reach an unknown, or if the caller disabled inlining there. `bindings` is None inside a
        rule.
        """
        search = self._search
        head = path[0]
        assert type(head) is Var
        if bindings is not None and head.name in bindings.unknown:
            return True
        if search.unknowns.reaches(path, bindings):
            return True
        if head != DATA:
            return False
        if search.disabled.always and search.disabled.from_caller(constant_prefix(path)):
            return True
        return any(self.rule(rule) for rule in search.program.reachable(path))

    def rule(self, rule: Rule) -> bool:
        """Return True if a rule or one of its `else` branches may reach an unknown. The result is
        cached for each set of replaced functions; a rule that is reached from itself counts as
        False.
        """
        # What a function is replaced by may be unknown where the function is not.
        rules = self._rules.setdefault(self._search.replaced.functions_number, {})
        known = rules.get(id(rule))
        if known is None:
            # Breaks the cycle where a reference with an unknown key may lead back to this rule.
            rules[id(rule)] = False
            known = rules[id(rule)] = any(map(self._branch, rule.branches()))
        return known

    def _branch(self, rule: Rule) -> bool:
        """Return True if the head or body of one branch of a rule may reach an unknown document;
        variables count as known. Branches after `else` are not looked at.
        """
        heads = [*rule.path[1:], *(rule.args or ())]
        heads += [term for term in (rule.key, rule.value) if term is not None]
        return any(self.term(term, None) for term in heads) or any(
            self.expr(expr, None) for expr in rule.body
        )

    def expr(self, expr: Expr, bindings: Bindings | None) -> bool:
        """Return True if an expression may reach an unknown document or variable. One with `with`
        always counts, and so does a call of a built-in that is not pure, unless
        `settings.nondeterministic`; that also adds "world" to `search.consulted`. For a function
        that a `with` replaces, its replacement counts. `bindings` is None inside a rule.
        """
        if expr.withs:
            return True
        if expr.every is not None:
            every = expr.every
            return self.term(every.domain, bindings) or any(
                self.expr(inner, bindings) for inner in every.body
            )
        operator = expr.operator
        mock = None if operator is None else self._search.replaced.function(operator)
        if mock is not None:
            if self.term(mock, bindings):
                return True
        elif type(operator) is Ref:
            if self.term(operator, bindings):
                return True
        elif isinstance(operator, str) and not self._search.settings.nondeterministic:
            declared = self._search.program.builtin(operator)
            if declared is not None and asks_the_world(declared):
                self._search.consulted.add("world")
                return True
        return any(self.term(arg, bindings) for arg in expr.args)


def _is_truth(term: Term) -> bool:
    """Return True if `term` is a variable that `Search.truth` made: its value only has to be other
    than false.
    """
    return type(term) is Var and term.name.startswith("$_term_")


def asks_the_world(declared: Builtin) -> bool:
    """Return True if a built-in is not pure, so that it may answer differently when the residual is
    evaluated.
    """
    return not declared.pure


def constant_prefix(path: Path) -> Path:
    """Return the path up to its first operand that is not constant; the head always belongs to
    it.
    """
    for location, part in enumerate(path):
        if location and type(part) is not Constant:
            return path[:location]
    return path


# Base data and the tree of rules


def data(
    search: SearchContext, path: Path, result: Term, b1: Bindings, b2: Bindings, site: Site
) -> Solutions:
    """Yield for each way in which `path`, which begins with `data` and is read in `b1`, leads to
    `result`.
    """
    return _Walk(search, path, result, b1, b2, site).go(1, [DATA], search.program.root)


class _Walk:
    """Follows a reference that begins with `data` key by key, through base data and rules."""

    def __init__(
        self,
        search: SearchContext,
        path: Path,
        result: Term,
        b1: Bindings,
        b2: Bindings,
        site: Site,
    ) -> None:
        self.search = search
        self.path = path
        self.result = result
        self.b1 = b1
        self.b2 = b2
        self.site = site

    def go(self, pos: int, plugged: list[Term], node: Node | None) -> Solutions:
        """Yield once for each way in which the path, followed from index `pos` on, leads to the
        result (see `Solutions`: the bindings hold until the iterator continues). A document that is
        unknown, or must not be inlined, is saved as an equation in the residual, which counts as
        one way. `plugged` is the constant path so far, and `node` has the rules there; None if
        there are no rules below.
        """
        if pos == len(self.path):
            return self._end(tuple(plugged), node)
        key = plug(self.path[pos], self.b1)
        if type(key) is Constant:
            return self._step(pos, plugged, node, key)
        return self._each(pos, plugged, node)

    def _step(self, pos: int, plugged: list[Term], node: Node | None, key: Term) -> Solutions:
        """Yield for each way in which the path leads to the result behind one constant key, by a
        rule if there is one and no `with` replaces the document. `node` is the one at `plugged`,
        None if there are no rules.
        """
        here = [*plugged, key]
        child = None
        if node is not None and not self.search.replaced.covers(here):
            child = node.children.get(to_key(as_value(key)))
            if child is not None and child.is_virtual:
                return _Virtual(self, child, tuple(here), pos).solutions()
        return self.go(pos + 1, here, child)

    def _each(self, pos: int, plugged: list[Term], node: Node | None) -> Solutions:
        """Yield the solutions for an unbound key at position `pos` of the path, behind the known
        keys `plugged`: every key of base data in order, then those that only rules have below
        `node`, None if there are none. If the caller disabled inlining of this document, the whole
        reference is saved in the residual instead.
        """
        search = self.search
        if search.disabled.from_caller(tuple(plugged)):
            rest = [plug(part, self.b1) for part in self.path[pos:]]
            document = Ref((*plugged, *rest))
            self._note_conflicts(tuple(plugged), node)
            yield from search.save_equation(document, self.result, self.b1, self.b2, self.site)
            return
        keys = [key for key, _ in iterate(base(search, plugged))]
        # Keys of base data first, then those that only rules have.
        seen = {to_key(key) for key in keys}
        if node is not None:
            keys += [from_key(child.key) for child in node.sorted() if child.key not in seen]
        for key in keys:
            here = Constant(key)
            for _ in search.unify(here, self.path[pos], self.b1, self.b1, self.site):
                yield from self._step(pos, plugged, node, here)

    def _end(self, plugged: Path, node: Node | None) -> Solutions:
        """Yield for each way in which the document at `plugged`, the end of the path, equals the
        result; if it is unknown, save the equation and yield once. Nothing if there is no document.
        `node` has the rules at or below the path, None if there are none.
        """
        search = self.search
        if search.is_unknown(Ref(plugged), self.b1):
            reference = Ref(plugged)
            self._note_conflicts(plugged, node)
            yield from search.save_equation(reference, self.result, self.b1, self.b2, self.site)
            return
        value = self._extent(plugged, node)
        if value is not UNDEFINED:
            yield from search.unify(self.result, Constant(value), self.b2, self.b1, self.site)

    def _note_conflicts(self, plugged: Path, node: Node | None) -> None:
        """With `settings.truth`, record in `search.conflicts` rules below a node that may give one
        document two values, each document once: they are not inlined where the document as a whole
        stays. Hidden nodes and functions are left out; nothing is yielded or saved.
        """
        search = self.search
        seen = plugged, known_documents(search)
        if node is None or not search.settings.truth or seen in search.compared:
            return
        search.compared.add(seen)
        for child in node.sorted():
            if child.hidden:
                continue
            here = (*plugged, Constant(from_key(child.key)))
            if not child.is_virtual:
                self._note_conflicts(here, child)
            elif not child.is_function:
                with search.apart():
                    for _ in search.unify(Ref(here), search.leaf(), self.b1, self.b1, self.site):
                        pass

    def _extent(self, plugged: Path, node: Node | None) -> Any:
        """Return the whole document at a path: base data merged with the values of rules; UNDEFINED
        if there is none.
        """
        below = base(self.search, plugged)
        if node is None:
            return below
        document = self._leaves(plugged, node)
        return document if below is UNDEFINED else merge(below, document)

    def _leaves(self, plugged: Path, node: Node) -> Any:
        """Return an object with the values of all rules below a node, nested by their paths, in key
        form; nothing that they read may be unknown. Hidden nodes, functions and undefined rules are
        left out. Errors of rules pass through.
        """
        document: dict[Any, Value] = {}
        for child in node.sorted():
            if child.hidden:
                continue
            here = (*plugged, Constant(from_key(child.key)))
            if not child.is_virtual:
                document[child.key] = self._leaves(here, child)
                continue
            leaf, bindings = self.search.leaf(), self.b1
            for _ in self.search.unify(Ref(here), leaf, bindings, bindings, self.site):
                document[child.key] = as_value(plug(leaf, bindings))
        return document


def base(search: SearchContext, path: Sequence[Term]) -> Any:
    """Return base data at a constant path, merged with the values that `with` sets below it;
    UNDEFINED if there is none. If `with` replaces the document or one above it, only the
    replacement counts. Without keys, `data.system` is left out. Adds "base" to `search.consulted`.
    """
    search.consulted.add("base")
    keys = [as_value(part) for part in path[1:]]
    known = search.replaced.find(keys)
    if search.replaced.covers(path):
        return known
    value: Any = search.data
    for key in keys:
        value = lookup_data(value, key)
        if value is UNDEFINED:
            break
    # `data` as a whole has no `system`; a path that begins with it is readable.
    if not keys:
        value = without_system(value)
    if known is UNDEFINED:
        return value
    return known if value is UNDEFINED else merge(known, value)


class _Virtual:
    """Evaluates a reference whose part `path[pos]` leads to rules, and follows the rest of the path
    inside their values.
    """

    def __init__(self, walk: _Walk, node: Node, plugged: Path, pos: int) -> None:
        self.walk = walk
        self.search = walk.search
        self.node = node
        self.plugged = plugged
        self.pos = pos
        self.path = walk.path

    def solutions(self) -> Solutions:
        """Yield for each solution in which the reference equals the result; nothing for a function.
        A rule with `else` that is unknown and must not be inlined is saved as a reference. Adds
        "rules" to `search.consulted`.
        """
        node, walk, search = self.node, self.walk, self.search
        search.consulted.add("rules")
        if node.is_function:
            return
        if self._keeps_else and search.is_unknown(Ref(self.path), walk.b1):
            # An `else` holds where the rules before it do not, and that is not known: nothing of
            # it is inlined.
            seen = self.plugged, known_documents(search)
            if search.settings.truth and seen not in search.compared:
                search.compared.add(seen)
                search.conflicts += conflicts_of_branches(node.rules)
            document = Ref(self.path)
            yield from search.save_equation(document, walk.result, walk.b1, walk.b2, walk.site)
        elif node.rules and (node.rules[0].is_set or not node.is_ground):
            yield from self._partial()
        else:
            yield from self._complete()

    @property
    def _keeps_else(self) -> bool:
        """True if the rules have an `else` and the residual must refer to them instead of inlining
        them: always, except with `settings.truth` and without `settings.keep_else` for rules that
        define one document.
        """
        if not self.node.has_else:
            return False
        settings = self.search.settings
        return settings.keep_else or not settings.truth or not self.node.is_ground

    def _follow_value(self, term: Term, where: Bindings, pos: int) -> Solutions:
        """Yield for each way in which the path from `pos` on, followed inside a rule's value
        `term`, equals the result. `term` is read in the bindings `where`.
        """
        walk = self.walk
        term, where = apply(term, where)
        return self.search.inside(
            self.path, pos, walk.b1, term, where, walk.result, walk.b2, walk.site
        )

    # Complete rules

    def _complete(self) -> Solutions:
        """Yield the solutions of a reference into the value of a complete rule. If nothing that it
        reaches is unknown, its value is computed and the rest of the path followed in it; nothing
        if it is undefined. Otherwise its branches are inlined, or it is saved as a reference to
        support (rules that the residual contains) if its default matters, inlining is disabled, or
        `shallow` is set.
        """
        search, walk, default = self.search, self.walk, self.node.default
        if not search.is_unknown(Ref(self.path), walk.b1):
            # Nothing of what is known comes into the residual, so what must not be inlined there
            # does not matter.
            with search.disabled.suspended():
                value = self._value()
            if value is not UNDEFINED:
                yield from self._follow_value(Constant(value), walk.b1, self.pos + 1)
            return
        if search.settings.truth:
            self._note_conflict()
        needs_support = default is not None and self._default_matters(default)
        if needs_support or search.settings.shallow or search.disabled.has(self.plugged):
            yield from self._support(self._complete_support)
            return
        for rule in self.node.branches:
            # Each rule has variables of its own, so that two uses of it never share one.
            bindings = search.child()
            assert rule.value is not None
            for _ in search.branch(rule, bindings):
                yield from self._follow_value(rule.value, bindings, self.pos + 1)

    def _default_matters(self, default: Rule) -> bool:
        """Return True if the default value may be an answer: it is not constant, the path may lead
        into it to a value that equals the result, or a part of path or result is unknown. If not,
        the rules alone decide. With `settings.truth`, a default of false does not matter where the
        result must be true.
        """
        walk = self.walk
        if type(default.value) is not Constant:
            return True
        value: Any = default.value.value
        for part in self.path[self.pos + 1 :]:
            key = plug(part, walk.b1)
            if type(key) is not Constant:
                return True
            value = lookup(value, key.value)
            if value is UNDEFINED:
                return False
        expected = plug(walk.result, walk.b2)
        if type(expected) is Constant:
            return equal(value, expected.value)
        # Undefined and false are the same to what asks for truth.
        return not (self.search.settings.truth and value is False and _is_truth(expected))

    def _note_conflict(self) -> None:
        """Record in `search.conflicts` two rules that may give this document two values. A document
        is compared only once for the same known documents.
        """
        search = self.search
        seen = self.plugged, known_documents(search)
        if seen not in search.compared:
            search.compared.add(seen)
            conflict = find_conflict(search, self.node.branches, search.branch)
            if conflict is not None:
                search.conflicts.append(conflict)

    def _value(self) -> Any:
        """Return the value of a document whose rules are all known, or else its default; UNDEFINED
        if there is neither. The value is cached until the present `with` ends. EvalError for two
        different values.
        """
        search = self.search
        cached = search.replaced.cached(self.plugged)
        if cached is not None:
            return cached[0]
        value: Any = UNDEFINED
        for rule in self.node.rules:
            value = self._value_of(rule, value)
        if value is UNDEFINED and self.node.default is not None:
            value = self._value_of(self.node.default, value)
        search.replaced.cache(self.plugged, value)
        return value

    def _value_of(self, rule: Rule, before: Any) -> Any:
        """Return the value of the first branch of `rule` that holds; `before`, the value of the
        rules before or UNDEFINED, if none does. EvalError if the branch gives two values, or one
        that differs from `before`.
        """
        for branch in rule.branches():
            known = before
            answered = False
            bindings = self.search.child()
            assert branch.value is not None
            for _ in self.search.rule(branch, bindings):
                value = as_value(plug(branch.value, bindings))
                if known is not UNDEFINED and not equal(known, value):
                    text = "complete rules must not produce multiple outputs"
                    raise EvalError(CONFLICT_ERROR, text, branch.span)
                known, answered = value if known is UNDEFINED else known, True
            if answered:
                return known
        return before

    def _complete_support(self, rule: Rule) -> bool:
        """Add the residual of one complete rule to the support. Return True if the rule has a
        solution, even if it never holds by its types and nothing is added.
        """
        search = self.search
        bindings = search.child()
        is_defined = False
        with search.apart() as saved:
            for _ in search.branch(rule, bindings):
                is_defined = True
                assert rule.value is not None
                add_complete(search, self.plugged, rule, bindings, saved)
        return is_defined

    # Sets, objects, and references with variables

    def _partial(self) -> Solutions:
        """Yield the solutions of a reference to a partial set or object, or into one. A known
        document read as a whole is built. It goes into the support (rules that the residual
        contains) if it is unknown and read as a whole or with `shallow`, or if a part of it is read
        and inlining it is disabled; otherwise its rules are tried one by one.
        """
        search, walk = self.search, self.walk
        # A known part of an unknown document is evaluated: the rules of its other parts do not
        # count.
        unknown = search.is_unknown(Ref(self.path[: self.pos + 1]), walk.b1) and search.is_unknown(
            Ref(self.path[: self._bound_end]), walk.b1
        )
        if search.settings.truth and unknown:
            self._note_key_conflict()
        if len(self.path) == self.pos + 1:
            if unknown:
                yield from self._support(self._partial_support)
            else:
                with search.disabled.suspended():
                    document = Constant(self._build_document())
                yield from search.unify(document, walk.result, walk.b1, walk.b2, walk.site)
        elif (unknown and search.settings.shallow) or search.disabled.has(
            self.plugged[: self.pos + 1]
        ):
            yield from self._support(self._partial_support)
        else:
            yield from self._each_rule(unknown)

    @property
    def _bound_end(self) -> int:
        """The index behind the keys that are bound, from that of this document on: a decision
        evaluates the rules that match them, with any further keys.
        """
        end = self.pos + 1
        while end < len(self.path) and type(plug(self.path[end], self.walk.b1)) is Constant:
            end += 1
        return end

    def _each_rule(self, unknown: bool) -> Solutions:
        """Yield the solutions of a reference into a set or object. With an unknown key, each rule's
        body is evaluated before its head; with a known key and rules that are unknown (`unknown`),
        its head first; known rules are evaluated and the key is looked up. If the reference ends at
        a set or object that several solutions fill, known rules build the document, and unknown
        ones go into the support.
        """
        search, walk = self.search, self.walk
        longest = max(len(rule.path) + rule.is_set for rule in self.node.rules)
        following = self.path[self.pos + 1 : min(longest, len(self.path))]
        is_filled = longest > len(self.path)
        if is_filled and unknown:
            yield from self._support(self._partial_support)
        elif not is_filled and any(search.is_unknown(part, walk.b1) for part in following):
            for rule in self.node.rules:
                bindings = search.child()
                for _ in search.rule(rule, bindings):
                    # The key is not known, so the body goes first: it may bind what the head
                    # names.
                    for _ in self._head(rule, bindings):
                        yield from self._answer(rule, bindings)
        elif unknown:
            for rule in self.node.rules:
                bindings = search.child()
                # The key is known and the body is not: rules with another key are left out at
                # once.
                for _ in self._head(rule, bindings):
                    for _ in search.rule(rule, bindings):
                        yield from self._answer(rule, bindings)
        else:
            key = plug(self.path[self.pos + 1], walk.b1)
            with search.disabled.suspended():
                value = self._below(key) if type(key) is Constant else self._build_document()
            yield from self._follow_value(Constant(value), walk.b1, self.pos + 1)

    def _note_key_conflict(self) -> None:
        """Record in `search.conflicts` two rules that may give one key of this object two
        values. A decision evaluates the rules that match the keys up to the first one that is not
        bound, and no further: an operand behind it leaves none out.
        """
        search = self.search

        def solutions(rule: Rule, own: Bindings) -> Solutions:
            for _ in self._head(rule, own, self._bound_end):
                yield from search.rule(rule, own)

        rules = [rule for rule in self.node.rules if not rule.is_set]
        conflict = find_conflict(search, rules, solutions, self.pos + 1) if rules else None
        if conflict is not None:
            search.conflicts.append(conflict)

    def _head(self, rule: Rule, own: Bindings, end: int | None = None) -> Solutions:
        """Yield for each way in which the keys of the reference, up to the index `end` of its path,
        match those in the rule's head, as far as both go.
        """
        here = list(self.path[self.pos + 1 : end])
        head = list(rule.path[self.pos + 1 :])
        if rule.is_set and len(here) > len(head):
            assert rule.key is not None
            head.append(rule.key)
        # A reference may end inside a document, and a rule may define less than the reference
        # reads.
        count = min(len(here), len(head))
        return self.search.unify_all(here[:count], head[:count], self.walk.b1, own, self.walk.site)

    def _answer(self, rule: Rule, own: Bindings) -> Solutions:
        """Yield for each way in which the rest of the reference, followed inside the rule's value,
        equals the result.
        """
        if rule.is_set:
            assert rule.key is not None
            term: Term = set_((apply(rule.key, own)[0],))
        else:
            assert rule.value is not None
            term = rule.value
        for part in reversed(rule.path[self.pos + 1 :]):
            term = object_(((part, term),))
        return self._follow_value(term, own, self.pos + 1)

    def _build_document(self) -> Any:
        """Return the whole set or object that the node's rules build, of which nothing may be
        unknown; cached until the present `with` ends. EvalError for two values under one key;
        errors of rules pass through.
        """
        cached = self.search.replaced.cached(self.plugged)
        if cached is not None:
            return cached[0]
        building = _Building(self.node.rules, self.pos)
        for rule in self.node.rules:
            bindings = self.search.child()
            for _ in self.search.rule(rule, bindings):
                building.add(rule, bindings)
        value = building.value()
        self.search.replaced.cache(self.plugged, value)
        return value

    def _below(self, key: Term) -> Value:
        """Return the part of the document that rules define under keys that match the reference:
        enough to look up `key` in it. Nothing that these rules read may be unknown. EvalError for
        two values under one key; errors of rules pass through.
        """
        building = _Building(self.node.rules, self.pos)
        for rule in self.node.rules:
            bindings = self.search.child()
            for _ in self._head(rule, bindings):
                for _ in self.search.rule(rule, bindings):
                    building.add(rule, bindings)
        return building.value()

    def _partial_support(self, rule: Rule) -> bool:
        """Add the residual of one partial rule to the support. Return True if the rule may hold."""
        search = self.search
        bindings = search.child()
        is_defined = False
        with search.apart() as saved:
            for _ in search.rule(rule, bindings):
                # Without a rule in the support the document would be undefined, and not empty.
                is_defined = add_partial(search, rule, bindings, saved) or is_defined
        return is_defined

    def _support(self, add: Any) -> Solutions:
        """Add the node's rules to the support with `add`, unless they are there, and save an
        equation of the result with a reference to them. `add` returns True if a rule may hold.

        If no rule may hold, a complete document has no solution, and a whole set or object is
        empty. If the support already has these rules for other known documents, the original
        reference is saved.
        """
        search, walk, node = self.search, self.walk, self.node
        # Rules below an object would become packages, which are there without a member.
        after = self.pos + 1
        is_mixed = not node.is_ground and any(
            len(rule.path) > after and type(rule.path[after]) is Constant for rule in node.rules
        )
        if is_mixed or not search.support.is_open(self.plugged, known_documents(search)):
            document = Ref(self.path)
            yield from search.save_equation(document, walk.result, walk.b1, walk.b2, walk.site)
            return
        location = search.support.add_namespace(self.plugged)
        is_defined = search.support.has(location)
        if not is_defined:
            rules = [*node.branches, *([] if node.default is None else [node.default])]
            for rule in rules:
                is_defined = add(rule) or is_defined
        term: Term = Ref(search.support.add_namespace(self.path))
        if not is_defined:
            if add == self._complete_support or len(self.path) != self.pos + 1:
                return
            term = Constant(frozenset() if node.is_ground else {})
        yield from search.save_equation(term, walk.result, walk.b1, walk.b2, walk.site)


class _Building:
    """A set or an object under construction by rules."""

    def __init__(self, rules: Sequence[Rule], pos: int) -> None:
        self.pos = pos
        self.is_set = all(rule.is_ground and rule.is_set for rule in rules)
        self._made: dict[Any, Any] = {}

    def add(self, rule: Rule, rule_bindings: Bindings) -> None:
        """Add what a rule gives with these bindings, of which nothing may be unknown: a member to
        the set, or a value under the rest of the rule's path to the object. EvalError at the rule
        if the path has a different value already.
        """
        span: Span = rule.span
        path = [as_value(plug(part, rule_bindings)) for part in rule.path[self.pos + 1 :]]
        if rule.is_set:
            assert rule.key is not None
            member = as_value(plug(rule.key, rule_bindings))
            if self.is_set:
                self._made[to_key(member)] = None
            else:
                insert_member_at(self._made, path, member, span)
            return
        assert rule.value is not None
        value = as_value(plug(rule.value, rule_bindings))
        if len(path) == 1:
            insert(self._made, path[0], value, span)
        else:
            insert_at(self._made, path, value, span)

    def value(self) -> Value:
        return frozenset(self._made) if self.is_set else freeze(self._made)
