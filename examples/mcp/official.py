"""An agent gateway with the official SDK of the Model Context Protocol.

python examples/mcp/official.py          (stdio)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer

from doorward.integrations.mcp_server import ServerPolicy
from doorward.pdp import from_folder

HERE = Path(__file__).resolve().parent
point = from_folder(HERE / "official.rego", HERE / "data.json").watch()
server: MCPServer[Any] = MCPServer("shop")
# On stdio the agent runs as its user; over HTTP a verified token says who it is.
policy = ServerPolicy(server, point, user=lambda: {"id": os.environ.get("AGENT", "support")})
server.middleware.append(policy)


@server.tool(meta={"tags": ["read"]})
def order_status(order: int) -> str:
    """Where an order is."""
    return f"order {order} is on its way"


@server.tool(meta={"tags": ["write"]})
def refund(order: int, amount: int) -> str:
    """Pay money back."""
    return f"refunded {amount} for order {order}"


if __name__ == "__main__":
    server.run()
