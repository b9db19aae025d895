"""The command line becomes a running People API: `python -m people --port 8080`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

import uvicorn
from sqlalchemy.exc import ArgumentError, OperationalError

from people.app import create_app
from people.store import DEFAULT_URL, PeopleStore

DRAIN: Final = 5  # seconds that running requests have after SIGTERM


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; the exit code."""
    options = _read_options(arguments)
    try:
        store = PeopleStore(options.database_url)
    except (ArgumentError, ValueError) as error:
        print(f"people: the database URL is not usable: {error}", file=sys.stderr)
        return 2
    except OperationalError:
        # The driver's text is left out: it may repeat the URL with its password.
        print("people: the database cannot be opened", file=sys.stderr)
        return 1
    if options.sample:
        store.add_sample()
    uvicorn.run(
        create_app(store),
        host=options.host,
        port=options.port,
        http="h11",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=200,
        timeout_graceful_shutdown=DRAIN,
    )
    return 0


def _read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="people", description="A REST service of person records.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8080, help="port to listen on (%(default)s)")
    parser.add_argument(
        "--database-url",
        default=os.environ.get("DATABASE_URL", DEFAULT_URL),
        help="SQLite or PostgreSQL, or `:memory:`; "
        f"taken from DATABASE_URL where that is set, else {DEFAULT_URL}",
    )
    parser.add_argument(
        "--sample", action="store_true", help="put John and Jane Doe into an empty database"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
