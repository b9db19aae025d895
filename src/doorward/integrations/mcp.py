"""Tool calls of agents: the policy decides which tools a client sees, and which calls with which
arguments run.

    mcp = FastMCP("shop", middleware=[PolicyMiddleware(point)])

Lists contain the tools that the policy allows to be listed. A call is decided with its arguments;
it must also be allowed to be listed. The same holds for resources and prompts. Requests that cannot
be decided are refused. A policy can ask for a budget, which a counter beside the policy enforces.
"""

from __future__ import annotations

import inspect
import json
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, get_type_hints

from doorward.base.exporting import missing

try:
    from fastmcp.exceptions import McpError, PromptError, ResourceError, ToolError
except ModuleNotFoundError as error:
    raise missing("doorward[mcp]", error) from None
from fastmcp.server.dependencies import get_access_token, without_injected_parameters
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.tools.function_tool import FunctionTool
from fastmcp.utilities.types import get_cached_typeadapter
from fastmcp.utilities.versions import VersionSpec
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError

from doorward.enforcement.refusals import log_failure
from doorward.integrations.mcp_requests import (
    FREE,
    INVALID_REQUEST,
    describe_invalid,
    params_of,
    subject_of,
    to_value,
)
from doorward.pdp import Decision, DecisionPoint
from doorward.telemetry.rate_limited_log import RateLimitedLog

__all__ = ["Budget", "BudgetError", "PolicyMiddleware", "SqliteBudget"]

_log: Final = logging.getLogger(__name__)
_quiet: Final = RateLimitedLog()
T = TypeVar("T")
Next = Callable[[Any], Awaitable[Any]]

# INVARIANT: each has a method of its own in `PolicyMiddleware` that asks the policy, since
# `on_request` passes these on undecided.
_DECIDED: Final = frozenset(
    {
        *("tools/call", "tools/list", "resources/read", "resources/list"),
        *("resources/templates/list", "prompts/get", "prompts/list"),
    }
)
"""Methods that are decided in a method of their own, which knows their subject."""
MAX_KEY: Final = 512
"""The longest key of a budget, in characters."""


class BudgetError(Exception):
    """A counter that cannot be read or written; the call is refused."""


class Budget(Protocol):
    """A counter of costs, by key and window of time; several processes may share it."""

    def spend(self, key: str, cost: int, limit: int, seconds: int) -> bool:
        """Add `cost` to the costs of `key` in the present window of `seconds`, atomically, and
        return True. Return False, and add nothing, if the sum would exceed `limit`. Raise
        BudgetError if the counter does not work.
        """


class SqliteBudget:
    """Counters in an SQLite file for all processes of a host. Windows begin at multiples of their
    length since 1970.
    """

    def __init__(self, path: str | Path, *, timeout: float = 1.0) -> None:
        """Create the file and its table if they are missing. `timeout` is the longest wait for
        other processes in seconds.
        """
        self._path = str(path)
        self._timeout = timeout
        with self._open() as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS budget"
                " (key TEXT PRIMARY KEY, began INTEGER NOT NULL, spent INTEGER NOT NULL)"
            )

    def _open(self) -> closing[sqlite3.Connection]:
        # One for each use: connections belong to a thread, and calls to any.
        return closing(sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None))

    def spend(self, key: str, cost: int, limit: int, seconds: int) -> bool:
        """Add `cost` to the costs of `key` in the present window of `seconds` and return True;
        return False, and add nothing, if the sum would exceed `limit`. It is one statement, and so
        atomic. Raise BudgetError if the database fails or stays locked.
        """
        began = int(time.time()) // seconds * seconds
        try:
            with self._open() as database:
                row = database.execute(
                    # The first WHERE is for a new key, the second for a known one.
                    "INSERT INTO budget SELECT :key, :began, :cost WHERE :cost <= :limit"
                    " ON CONFLICT (key) DO UPDATE SET began = :began,"
                    " spent = :cost + CASE began WHEN :began THEN spent ELSE 0 END"
                    " WHERE :cost + CASE began WHEN :began THEN spent ELSE 0 END <= :limit"
                    " RETURNING spent",
                    {"key": key, "began": began, "cost": cost, "limit": limit},
                ).fetchone()
        except sqlite3.Error as error:
            raise BudgetError(str(error)) from error
        return row is not None


class PolicyMiddleware(Middleware):
    """Middleware that decides everything that a client lists and uses by the document at `path`.

    The input has `method` (`tools/list`, `tools/call`, `resources/read`, `completion/complete` and
    so on), `name` (for a resource its URI, for a completion its subject), `arguments` (validated,
    with defaults), `tags`, `responses` (a client's answers to questions of a tool), and `user`
    (`id`, `client`, `scopes`, `claims` of a verified token; absent without one). The result is a
    boolean, or an object with `allowed`, `message` and `budget`: `{"key", "limit", "seconds",
    "cost"}`.
    """

    def __init__(
        self,
        point: DecisionPoint,
        path: str = "mcp/allow",
        *,
        budget: Budget | None = None,
        user: Callable[[], Any] | None = None,
    ) -> None:
        """Let the document at `path` decide. `user` returns the user for the input if there is no
        token, as on stdio. Without `budget`, a call for which the policy asks for a budget is
        refused.
        """
        self._point = point
        self._path = path
        self._budget = budget
        self._user = user or (lambda: None)

    # INVARIANT: `call_next` keeps its name in all of these methods: FastMCP passes it by that name.
    async def on_request(self, context: MiddlewareContext[Any], call_next: Next) -> Any:
        """Decide a request for which this class has no other method, such as a completion of an
        argument; raise McpError unless the policy allows it. Requests about the connection itself
        pass.
        """
        method = context.method or ""
        if method not in _DECIDED and method not in FREE:
            params = params_of(context.message)
            why = self._charge_or_refuse(await self._ask(method, subject_of(params), params))
            if why is not None:
                raise McpError(INVALID_REQUEST, why)
        return await call_next(context)

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Next) -> Any:
        """Run a tool. Raise ToolError if it is unknown or may not be listed (with the same text),
        its arguments are not valid, or the policy refuses the call.
        """
        name = context.message.name
        server = context.fastmcp_context
        tool = await self._tool(context, name)
        tags = [] if tool is None else _tags_of(tool)
        if (
            # FastMCP runs a tool that its list leaves out, too, and may call this without a
            # context.
            tool is None
            or server is None
            or not (await self._ask("tools/list", name, tags=tags)).allowed
        ):
            raise ToolError(f"Unknown tool: {name!r}")  # as for one that does not exist
        arguments = validated_arguments(
            tool,
            context.message.arguments or {},
            strict=server.fastmcp.strict_input_validation,
        )
        decision = await self._ask("tools/call", name, arguments, tags, context.message)
        why = self._charge_or_refuse(decision)
        if why is not None:
            raise ToolError(why)
        return await call_next(context)

    async def check_resource_access(self, context: MiddlewareContext[Any]) -> None:
        """Raise ResourceError if the policy does not allow the resource to be read. FastMCP calls
        this before each read, and before its extensions reveal anything about a resource.
        """
        message = context.message
        why = self._charge_or_refuse(
            await self._ask("resources/read", str(message.uri), request=message)
        )
        if why is not None:
            raise ResourceError(why)

    async def on_get_prompt(self, context: MiddlewareContext[Any], call_next: Next) -> Any:
        """Return the prompt that the server makes. Raise PromptError before that if the policy does
        not allow the prompt with these arguments, or if its budget is used up or cannot be counted.
        """
        message = context.message
        arguments = message.arguments or {}
        decision = await self._ask("prompts/get", message.name, arguments, request=message)
        why = self._charge_or_refuse(decision)
        if why is not None:
            raise PromptError(why)
        return await call_next(context)

    async def on_list_tools(self, context: MiddlewareContext[Any], call_next: Next) -> Any:
        """Return the tools that the policy allows to be listed; each is decided alone, and costs no
        budget.
        """
        return await self._keep_allowed("tools/list", await call_next(context), _name)

    async def on_list_resources(self, context: MiddlewareContext[Any], call_next: Next) -> Any:
        """Return the resources that the policy allows to be listed."""
        return await self._keep_allowed("resources/list", await call_next(context), _uri)

    async def on_list_resource_templates(
        self, context: MiddlewareContext[Any], call_next: Next
    ) -> Any:
        """Return the templates that the policy allows to be listed; their name in the input is the
        pattern of their URIs.
        """
        return await self._keep_allowed(
            "resources/templates/list", await call_next(context), _pattern
        )

    async def on_list_prompts(self, context: MiddlewareContext[Any], call_next: Next) -> Any:
        """Return the prompts that the policy allows to be listed."""
        return await self._keep_allowed("prompts/list", await call_next(context), _name)

    async def _keep_allowed(
        self, method: str, items: Sequence[T], name_of: Callable[[Any], str]
    ) -> list[T]:
        """Return the items of a list that the policy allows to be listed; each is decided alone, by
        the name that `name_of` returns.
        """
        return [
            each
            for each in items
            if (await self._ask(method, name_of(each), tags=_tags_of(each))).allowed
        ]

    async def _tool(self, context: MiddlewareContext[Any], name: str) -> Any:
        """Return the tool that the call would run, in the requested version; None if it is unknown,
        or a range of versions is requested.
        """
        if context.fastmcp_context is None:
            return None
        requested = (context.message.meta or {}).get("fastmcp")
        if requested is None:
            return await context.fastmcp_context.fastmcp.get_tool(name)
        version = requested.get("version") if isinstance(requested, dict) else requested
        if isinstance(version, dict):
            return None  # a range: which of them would run is for the server to say
        spec = None if version is None else VersionSpec(eq=str(version))
        return await context.fastmcp_context.fastmcp.get_tool(name, spec)

    async def _ask(
        self,
        method: str,
        name: str,
        arguments: Any = None,
        tags: Iterable[str] = (),
        request: Any = None,
    ) -> Decision:
        """Return the policy's decision on one use of an MCP method, such as the call of a tool; log
        the reason if it fails. `request` is the message with a client's answers to earlier
        questions, if any.
        """
        document: dict[str, Any] = {
            "method": method,
            "name": name,
            "tags": list(tags),
            **({} if arguments is None else {"arguments": arguments}),
            **_responses_of(request),
        }
        # `null` would be a value, and `input.user` in a rule would hold.
        # The token first: with both, every client over HTTP would be one user.
        if (user := _token_user() or self._user()) is not None:
            document["user"] = user
        decision = await self._point.decide(self._path, document)
        log_failure(decision, self._point.snapshot)
        return decision

    def _charge_or_refuse(self, decision: Decision) -> str | None:
        """Return the message of a refusal: by the policy, or because its budget is used up or
        cannot be read. None if the use is allowed, and then its budget is spent.
        """
        result: Any = decision.result
        error = result if isinstance(result, dict) else {}
        if not decision.allowed:
            message = error.get("message")
            return message if isinstance(message, str) else "the policy does not allow it"
        # Spent only now: a call that the policy refuses costs nothing.
        if "budget" not in error:
            return None
        try:
            return None if self._spend(error["budget"]) else "the budget is used up"
        except BudgetError as fault:
            _note_budget(str(fault))
            return "the budget cannot be counted: the log of the server says why"

    def _spend(self, amount: Any) -> bool:
        """Spend from the budget; return False if it is used up, or if the cost alone exceeds its
        limit. Raise `BudgetError` without a counter, or if the policy's `budget` is not valid.
        """
        fields: dict[str, Any] = amount if isinstance(amount, dict) else {}
        key: Any
        limit: Any
        seconds: Any
        key, cost = fields.get("key"), fields.get("cost", 1)
        limit, seconds = fields.get("limit"), fields.get("seconds")
        is_right = (
            isinstance(key, str)
            and len(key) <= MAX_KEY
            and all(type(each) is int and each >= 0 for each in (cost, limit, seconds))
        )
        if self._budget is None:
            raise BudgetError(
                "the policy sets a budget, but nothing counts it: give PolicyMiddleware a `budget`"
            )
        if not is_right or not seconds:
            raise BudgetError(
                f"`budget` of the policy's result must have a `key` of at most {MAX_KEY} "
                "characters, "
                "integers from 0 as `cost` and `limit`, and an integer from 1 as `seconds`"
            )
        # First here: a counter may compare with the limit only what a key has spent before.
        return cost <= limit and self._budget.spend(key, cost, limit, seconds)


def _note_budget(reason: str) -> None:
    """Log why a budget cannot be counted, rate-limited for each reason."""
    if (more := _quiet.suppressed(reason)) is not None:
        _log.error(
            "The budget of an MCP call cannot be counted.", extra={"reason": reason, "more": more}
        )


def validated_arguments(tool: Any, arguments: dict[str, Any], *, strict: bool) -> dict[str, Any]:
    """Return the arguments that the tool gets: validated, with its defaults, as Rego values. With
    `strict`, texts are not converted to numbers and the like.

    A tool that is not a function, such as one of another server, gets them unchanged: for the
    policy they are validated against its schema, and the schema's defaults are added. Raise
    ToolError if validation fails.
    """
    if not isinstance(tool, FunctionTool):
        return _by_schema(tool.parameters, arguments)
    try:
        if strict:
            # From JSON: strict mode takes a text for a date or a UUID there, and refuses it in
            # Python values.
            validated = _collector(tool.fn).validate_json(json.dumps(arguments), strict=True)
        else:
            validated = _collector(tool.fn).validate_python(arguments)
    except ValidationError as error:
        raise ToolError(describe_invalid(error)) from None
    return {name: to_value(each) for name, each in validated.items()}


@lru_cache(maxsize=1024)
def _collector(run: Callable[..., Any]) -> TypeAdapter[dict[str, Any]]:
    """Return an adapter that validates arguments for `run` as FastMCP does, but returns them by
    name instead of calling it. Cached for each function.
    """
    signature = inspect.signature(without_injected_parameters(run))

    def collect(*args: Any, **named: Any) -> dict[str, Any]:
        """Return the arguments of a call by name, with the defaults."""
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        call_arguments = dict(bound.arguments)
        for parameter in signature.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                call_arguments |= call_arguments.pop(parameter.name)
        return call_arguments

    try:
        hints = get_type_hints(run, include_extras=True)
    except (NameError, TypeError):  # names that are not there, or a callable without hints
        hints = {}
    annotations = {
        name: hints.get(name, Any if each.annotation is each.empty else each.annotation)
        for name, each in signature.parameters.items()
    }
    collect.__signature__ = signature  # type: ignore[attr-defined]  # what inspect reads
    collect.__annotations__ = annotations
    collect.__module__ = getattr(run, "__module__", __name__)
    return get_cached_typeadapter(collect)


def _by_schema(schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with the schema's defaults; raise `ToolError` if they do not match
    it.
    """
    validator = Draft202012Validator(schema)
    faults = [f"{each.json_path}: {each.validator}" for each in validator.iter_errors(arguments)]
    if faults:
        raise ToolError(f"the tool's arguments do not match its schema: {'; '.join(faults)}")
    properties = schema.get("properties", {})
    defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
    return {**defaults, **arguments}


def _responses_of(message: Any) -> dict[str, Any]:
    """Return the client's answers to the questions of the previous round, as `{"responses": …}`; {}
    if there are none.
    """
    responses = getattr(message, "input_responses", None) or {}
    answers = {
        key: each.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, each in responses.items()
    }
    return {"responses": answers} if answers else {}


def _name(each: Any) -> str:
    return str(each.name)


def _uri(each: Any) -> str:
    return str(each.uri)


def _pattern(each: Any) -> str:
    return str(each.uri_template)


def _tags_of(each: Any) -> list[str]:
    return sorted(each.tags or ())


def _token_user() -> Any:
    """Return the user in the connection's verified token: `id`, `client`, `scopes` and `claims`.
    None if there is no token, as on stdio.
    """
    token = get_access_token()
    if token is None:
        return None
    return {
        "id": token.claims.get("sub") if token.claims else None,
        "client": token.client_id,
        "scopes": list(token.scopes),
        "claims": dict(token.claims or {}),
    }
