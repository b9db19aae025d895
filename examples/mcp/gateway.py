"""An agent gateway: a policy decides which tools an agent sees, and which calls run.

python examples/mcp/gateway.py          (stdio)
python examples/mcp/gateway.py --http   (http://127.0.0.1:8000/mcp)
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import gettempdir

from fastmcp import FastMCP

from doorward.integrations.mcp import PolicyMiddleware, SqliteBudget
from doorward.pdp import from_folder

HERE = Path(__file__).resolve().parent
BUDGET = os.environ.get("BUDGET_FILE", str(Path(gettempdir()) / "gateway-budget.db"))
point = from_folder(HERE / "policy.rego", HERE / "data.json").watch()
mcp: FastMCP = FastMCP(
    "shop",
    middleware=[
        PolicyMiddleware(
            point,
            budget=SqliteBudget(BUDGET),
            # On stdio the agent runs as its user; over HTTP add an auth provider.
            user=lambda: {"id": os.environ.get("AGENT", "support")},
        )
    ],
)


@mcp.tool(tags={"read"})
def order_status(order: int) -> str:
    """Where an order is."""
    return f"order {order} is on its way"


@mcp.tool(tags={"write"})
def refund(order: int, amount: int) -> str:
    """Pay money back."""
    return f"refunded {amount} for order {order}"


@mcp.tool(tags={"admin"})
def delete_order(order: int) -> str:
    """Delete an order for good."""
    return f"deleted {order}"


if __name__ == "__main__":
    if "--http" in sys.argv:
        mcp.run(transport="http", host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
    else:
        mcp.run(show_banner=False)
