"""Rules: a head, its bodies, and `else`."""

from __future__ import annotations

from doorward.base.records import replace
from doorward.rego.syntax.lexer import EOF, IDENT
from doorward.rego.syntax.nodes import Body, Head, Set, Term, Var
from doorward.rego.syntax.parser.cursor import MAX_LINKS, Cursor, TooDeep
from doorward.rego.syntax.parser.drafts import Draft
from doorward.rego.syntax.parser.heads import check_default, parse_head, with_own_wildcards
from doorward.rego.syntax.parser.productions import BodyProductions, TermProductions
from doorward.rego.syntax.walk import walk

__all__ = ["Rules"]


class Rules:
    """The grammar productions of rules. Each returns None, or False, after recording an error at
    the cursor.
    """

    def __init__(self, cursor: Cursor, terms: TermProductions, bodies: BodyProductions) -> None:
        self.cursor = cursor
        self.terms = terms
        self.bodies = bodies

    def parse_rules(self) -> list[Draft] | None:
        """rules = "default" head | head [ bodies ]

        Returns one draft for each body, or one for a head without a body. None without an error if
        no rule begins here, also for a head alone without `contains`, which is parsed as a query
        instead; None after recording an error otherwise.
        """
        cursor = self.cursor
        start = cursor.token.start
        cursor.take_ref_keyword()
        default = cursor.kind == "default"
        if default:
            cursor.scan()
            cursor.take_ref_keyword()
        if cursor.kind != IDENT:
            return None
        draft = parse_head(cursor, self.terms, default=default)
        if draft is None:
            return None
        if default:
            if not check_default(cursor, draft, cursor.since(start)):
                return None
            draft.span = cursor.since(start)
            return [draft]
        draft.has_if = cursor.kind == "if"
        _place_key(draft)
        if not draft.has_if and cursor.kind != "{":
            if not draft.has_contains:
                return None
            draft.wrote_body = False
            draft.span = draft.head.span
            return [draft]
        return self._parse_bodies(draft, start)

    def _parse_bodies(self, draft: Draft, start: int) -> list[Draft] | None:
        """bodies = ( "if" if-body | "{" body "}" ) ( { else } | { "{" body "}" } )

        Parses what follows the head of `draft`, and returns one draft for each body. None after
        recording an error.
        """
        cursor = self.cursor
        cursor.scan()
        body = self._parse_if_body() if draft.has_if else self._parse_braced_body()
        if body is None:
            return None
        draft.body = body
        has_else = cursor.kind == "else" and not cursor.take_ref_keyword()
        if has_else and not self._parse_elses(draft):
            return None
        draft.span = cursor.since(start)
        return self._parse_more_bodies(draft)

    def _parse_if_body(self) -> Body | None:
        """if-body = literal | "{" body "}"

        Braces that can be read as a set are read as a body. None after recording an error.
        """
        cursor = self.cursor
        state = cursor.save()
        braces = cursor.kind == "{"
        expr = self.bodies.parse_literal()
        # A set is always true, so `if { x }` can only mean a body.
        if expr is not None and not (braces and isinstance(expr.term, Set)):
            return (expr,)
        if not braces:
            return None
        cursor.restore(state)
        cursor.scan()
        return self._parse_braced_body()

    def _parse_braced_body(self) -> Body | None:
        """body "}"

        Parses from after the opening brace to after the closing one. None after recording an error.
        """
        body = self.bodies.parse_body("}")
        if body is not None:
            self.cursor.scan()
        return body

    def _parse_more_bodies(self, draft: Draft) -> list[Draft] | None:
        """{ "{" body "}" }

        Returns `draft` and one more draft, with the same head, for each further body. None after
        recording an error, also after an `else`.
        """
        cursor = self.cursor
        drafts = [draft]
        while cursor.kind == "{":
            if draft.elses:
                cursor.error("expected else keyword")
                return None
            start = cursor.token.start
            cursor.scan()
            body = self._parse_braced_body()
            if body is None:
                return None
            head = replace(with_own_wildcards(cursor, draft.head), span=cursor.since(start))
            drafts.append(replace(draft, head=head, body=body, span=cursor.since(start)))
        return drafts

    # `else`

    def _parse_elses(self, draft: Draft) -> bool:
        """else { else }

        Adds all `else` branches to `draft`, up to one without a body, and returns True. False after
        recording an error, also for a rule that cannot have one; TooDeep above `MAX_LINKS`
        branches.
        """
        cursor = self.cursor
        if not all(_is_ground(a) for a in draft.head.ref.args):
            cursor.error("else keyword cannot be used on rules with variables in head")
            return False
        if draft.keyed:
            cursor.error("else keyword cannot be used on multi-value rules")
            return False
        starts = []
        while cursor.kind == "else":
            starts.append(cursor.token.start)
            following = self._parse_else(draft.head)
            if following is None:
                return False
            draft.elses.append(following)
            if len(draft.elses) > MAX_LINKS:
                cursor.error(f"more than {MAX_LINKS} else branches follow each other")
                raise TooDeep(cursor.errors)
            if not following.wrote_body:
                break  # always holds: what is after it begins a statement, which no `else` does
        for start, following in zip(starts, draft.elses, strict=True):
            following.span = cursor.since(start)
        return True

    def _parse_else(self, first: Head) -> Draft | None:
        """else = "else" ( ( ":=" | "=" ) term-infix [ else-body ] | else-body )

        Returns one branch; `first` is the head of the rule. None after recording an error.
        """
        cursor = self.cursor
        start = cursor.token.start
        head = replace(with_own_wildcards(cursor, first), value=None)
        draft = Draft(head, cursor.here())
        cursor.scan()
        if cursor.kind in (":=", "="):
            assign = cursor.kind == ":="
            cursor.scan()
            value = self.terms.parse_infix()
            if value is None:
                return None
            head = replace(head, value=value, assign=assign)
        elif cursor.kind in ("{", "if"):
            draft.wrote_value = False
        else:
            cursor.illegal("expected else value term or rule body")
            return None
        draft.head = replace(head, span=cursor.since(start))
        if cursor.kind in ("{", "if"):
            if not self._parse_else_body(draft):
                return None
        else:
            draft.wrote_body = False
        return draft

    def _parse_else_body(self, draft: Draft) -> bool:
        """else-body = "{" body "}" | "if" ( "{" body "}" | literal )

        Stores the body in `draft` and returns True; False after recording an error.
        """
        cursor = self.cursor
        if cursor.kind == "if":
            draft.has_if = True
            cursor.scan()
        if cursor.kind == "{":
            cursor.scan()
            body = self._parse_braced_body()
            if body is None:
                return False
            draft.body = body
            return True
        if cursor.kind == EOF:
            cursor.illegal("rule body expected")
            return False
        expr = self.bodies.parse_literal()
        if expr is None:
            return False
        draft.body = (expr,)
        return True


def _place_key(draft: Draft) -> None:
    """Set `keyed` of the draft if its head has `contains` or is `p[x]`; not for a constant `x`
    followed by `if`. Without `if` and without a value, `p[x]` becomes a partial set with the key
    `x`.
    """
    head = draft.head
    if draft.has_contains:
        draft.keyed = True
    elif head.args is None and len(head.ref.args) == 1:
        key = head.ref.args[0]
        if draft.has_if:
            draft.keyed = not _is_ground(key)
            return
        draft.keyed = True
        if head.value is None:
            draft.head = replace(head, ref=replace(head.ref, args=()), key=key)


def _is_ground(term: Term) -> bool:
    return not any(isinstance(node, Var) for node in walk(term))
