"""The official MCP SDK: the policy decides which tools a client sees, and which calls with which
arguments run.

    server = MCPServer("shop")
    server.middleware.append(ServerPolicy(server, point))

Input and result are those of `doorward.integrations.mcp`; `tags` are those in the `meta` of a tool.
Budgets are not supported: if a policy asks for one, the call is refused. A refusal is an error of
the protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from doorward.base.exporting import missing

try:
    from mcp import MCPError
    from mcp.server.auth.middleware.auth_context import get_access_token
except ModuleNotFoundError as error:
    raise missing("doorward[mcp]", error) from None
from mcp.server.mcpserver import MCPServer
from pydantic import ValidationError

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

__all__ = ["ServerPolicy"]

Next = Callable[[Any], Awaitable[Any]]
_LISTS: Final = {
    "tools/list": ("tools", "name"),
    "prompts/list": ("prompts", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
}
"""By list method: the field of the result with the list, and the field with the name of an item."""


class ServerPolicy:
    """Middleware that decides everything that a client lists and uses by the document at `path`."""

    def __init__(
        self,
        server: MCPServer[Any],
        point: DecisionPoint,
        path: str = "mcp/allow",
        *,
        user: Callable[[], Any] | None = None,
    ) -> None:
        """Let the document at `path` decide for `server`. `user` returns the user for the input if
        there is no token, as on stdio.
        """
        self._server = server
        self._point = point
        self._path = path
        self._user = user or (lambda: None)

    async def __call__(self, ctx: Any, call_next: Next) -> Any:
        """Answer a request that the policy allows, lists with the allowed items only; raise
        `MCPError` for any other. Notifications and requests about the connection pass.
        """
        method: str = ctx.method
        if ctx.request_id is None or method in FREE:
            return await call_next(ctx)
        if method in _LISTS:
            return await self._keep_allowed(method, await call_next(ctx))
        params = params_of(dict(ctx.params or {}))
        if method == "tools/call":
            await self._check_call(params)
        else:
            arguments = params.get("arguments", {}) if method == "prompts/get" else params
            self._check(await self._ask(method, subject_of(params), arguments))
        return await call_next(ctx)

    async def _check_call(self, params: dict[str, Any]) -> None:
        """Raise MCPError unless a tool may be called. The policy decides on the arguments as the
        tool's schema converts them, so that invalid ones are refused before it. A tool that may not
        be listed is refused with the same text as one that is unknown.
        """
        name = subject_of(params)
        tool = self._server._tool_manager.get_tool(name)
        tags = self._tags_of(name)
        if tool is None or not (await self._ask("tools/list", name, tags=tags)).allowed:
            raise MCPError(INVALID_REQUEST, f"Unknown tool: {name!r}")
        try:
            validated = tool.fn_metadata.validate_arguments(params.get("arguments") or {})
        except ValidationError as error:
            raise MCPError(INVALID_REQUEST, describe_invalid(error)) from None
        except ValueError:
            raise MCPError(INVALID_REQUEST, "invalid arguments") from None
        arguments = {key: to_value(value) for key, value in validated.items()}
        extra = {"responses": params["inputResponses"]} if params.get("inputResponses") else {}
        self._check(await self._ask("tools/call", name, arguments, tags=tags, **extra))

    async def _keep_allowed(self, method: str, result: Any) -> Any:
        """Return the result of a list method without the items that the policy does not allow to be
        listed. Each item is decided alone, by its name or URI and, for a tool, its tags.
        """
        name, key = _LISTS[method]
        allowed = []
        for each in result[name]:
            tags = self._tags_of(each[key]) if method == "tools/list" else []
            if (await self._ask(method, each[key], tags=tags)).allowed:
                allowed.append(each)
        return {**result, name: allowed}

    def _tags_of(self, name: str) -> list[str]:
        """Return the tags of a tool; [] if it is unknown or has none."""
        tool = self._server._tool_manager.get_tool(name)
        tags = ((tool.meta if tool is not None else None) or {}).get("tags", ())
        return [str(each) for each in tags]

    async def _ask(
        self,
        method: str,
        name: str,
        arguments: Any = None,
        tags: Sequence[str] = (),
        **more: Any,
    ) -> Decision:
        """Return the policy's decision on one use of an MCP method, such as the call of a tool; log
        the reason if it fails. `more` are further fields of the input.
        """
        document: dict[str, Any] = {"method": method, "name": name, "tags": list(tags), **more}
        if arguments is not None:
            document["arguments"] = arguments
        # `null` would be a value, and `input.user` in a rule would hold.
        # The token first: with both, every client over HTTP would be one user.
        if (user := _token_user() or self._user()) is not None:
            document["user"] = user
        decision = await self._point.decide(self._path, document)
        log_failure(decision, self._point.snapshot)
        return decision

    def _check(self, decision: Decision) -> None:
        """Raise `MCPError` unless the decision allows the use; also if it sets a budget, which is
        not supported here.
        """
        result: Any = decision.result
        fields = result if isinstance(result, dict) else {}
        if decision.allowed and "budget" not in fields:
            return
        message = fields.get("message")
        if decision.allowed:
            message = "budgets are not supported by this server: it needs FastMCP"
        text = message if isinstance(message, str) else "the policy does not allow it"
        raise MCPError(INVALID_REQUEST, text)


def _token_user() -> Any:
    """Return the user in the connection's verified token: `id`, `client`, `scopes` and `claims`.
    None if there is no token, as on stdio.
    """
    token = get_access_token()
    if token is None:
        return None
    return {
        "id": token.subject,
        "client": token.client_id,
        "scopes": list(token.scopes),
        "claims": dict(token.claims or {}),
    }
