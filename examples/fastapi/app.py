"""Documents of a team, guarded by one policy: each request by the middleware, each document by a
dependency.

    uvicorn --app-dir examples/fastapi app:app
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException
from starlette.requests import HTTPConnection

from doorward.integrations.asgi import Authorization, HttpOptions
from doorward.integrations.fastapi import DENIALS, install, require
from doorward.pdp import Decision, from_folder

DOCUMENTS: dict[str, dict[str, Any]] = {
    "1": {"owner": "ann", "public": True, "text": "hello"},
    "2": {"owner": "bob", "public": False, "text": "secret"},
}

point = from_folder(Path(__file__).resolve().parent / "policy.rego").watch()
app = FastAPI(title="Documents")
install(app, point)
app.add_middleware(Authorization, point=point, options=HttpOptions(path="documents/request"))


def about(connection: HTTPConnection) -> dict[str, Any]:
    """The input of a decision on one document."""
    document = DOCUMENTS.get(connection.path_params["id"])
    if document is None:
        raise HTTPException(404)
    user = connection.headers.get("x-demo-user", "")
    return {"user": user, "action": "read", "document": document}


MayRead = Annotated[Decision, Depends(require("documents/allow", input=about))]


@app.get("/documents/{id}", responses=DENIALS)
async def read(id: str, decision: MayRead) -> dict[str, Any]:
    """One document, and the id of the decision that allowed it."""
    return {**DOCUMENTS[id], "decision_id": decision.decision_id}
