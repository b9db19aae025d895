"""Decisions of the past: a search of the decision log by DuckDB, if that is installed.

The log is what `decision_logs.file` writes, or what waits in `decision_logs.spool`. Files are read,
the newest first, until there are enough decisions or the time is over; the result says how many
were not read. A question consists of a few values: none of it becomes SQL or the name of a file.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from doorward.base.digits import parse_digits
from doorward.base.records import record
from doorward.config.configuration import DecisionLogs
from doorward.console.callers import caller_of
from doorward.console.log_tail import newest_rows
from doorward.console.parameters import LONGEST, check_parameters
from doorward.console.responses import response_of
from doorward.console.rows import LONGEST as SHORT
from doorward.console.rows import request
from doorward.decision_log.redaction.hiding import hide_credentials
from doorward.rego import from_json, to_python

__all__ = ["VERDICTS", "LogQueryError", "Question", "Search", "log_files"]

MOST: Final = 200
"""The most decisions in one result."""
SECONDS: Final = 5.0
"""The seconds after which the caller stops a search."""
SHOWN: Final = 1 << 20
"""The most characters of an event that is displayed, and of an input that is read for its summary.
"""
FILES: Final = 1_000
"""The most files of a spool that are read; the oldest ones are left out."""
VERDICTS: Final = ("allow", "deny", "undefined", "error", "value")

_CONFIG: Final[dict[str, Any]] = {
    "threads": 1,
    "memory_limit": "256MB",
    # Nothing is written, and nothing is fetched.
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_FIELDS: Final = ("result", "allowed", "allow", "decision")
_ALLOWS: Final = " OR ".join(f"(json->'$.result.{name}')::VARCHAR = 'true'" for name in _FIELDS[1:])
_NAMES: Final = " OR ".join(f"(json->'$.result.{name}') IS NOT NULL" for name in _FIELDS[1:])
_VERDICT: Final = f"""CASE
    WHEN json_type(json->'error') <> 'NULL' THEN 'error'
    WHEN (json->'result') IS NULL THEN 'undefined'
    WHEN (json->'result')::VARCHAR = 'true' THEN 'allow'
    WHEN (json->'result')::VARCHAR = 'false' THEN 'deny'
    WHEN json_type(json->'result') <> 'OBJECT' THEN 'value'
    WHEN {_ALLOWS} THEN 'allow'
    WHEN {_NAMES} THEN 'deny'
    ELSE 'allow' END"""
"""SQL for the verdict of an event, the same as `rows.verdict`."""
_EVENTS: Final = f"""SELECT json, {_VERDICT} AS verdict,
        coalesce(json->>'query', json->>'path', '') AS path,
        coalesce(json->>'timestamp', '') AS moment
    FROM read_json_objects($1, format = 'auto', ignore_errors = true)
    WHERE (json->>'decision_id') IS NOT NULL"""
_LIST: Final = f"""SELECT json->>'decision_id', moment, path, verdict,
        CASE WHEN length((json->'input')::VARCHAR) <= {SHOWN} THEN (json->'input')::VARCHAR END,
        (json->'bundles')::VARCHAR, json->>'$.metrics.timer_rego_query_eval_ns',
        CASE WHEN length((json->'custom'->'claims')::VARCHAR) <= {SHOWN}
            THEN (json->'custom'->'claims')::VARCHAR END,
        CASE WHEN length((json->'custom'->'console')::VARCHAR) <= {SHOWN}
            THEN (json->'custom'->'console')::VARCHAR END
    FROM ({_EVENTS})
    WHERE ($2 = '' OR contains(lower(path), $2)) AND ($3 = '' OR verdict = $3)
        AND ($4 = '' OR moment >= $4) AND ($5 = '' OR moment < $5)
        {{words}}
    ORDER BY moment DESC LIMIT $6"""
_WORD: Final = """AND contains(lower(json::VARCHAR) || ' ' ||
            CASE verdict WHEN 'allow' THEN 'allowed' WHEN 'deny' THEN 'denied' ELSE verdict END,
            ${number})"""
"""SQL for the condition of one word of a search; the word itself is a parameter."""
WORDS: Final = 16
"""The most words of a search; further ones are ignored."""
_ONE: Final = f"""SELECT CASE WHEN length(json::VARCHAR) <= {SHOWN} THEN json::VARCHAR END, verdict
    FROM ({_EVENTS}) WHERE (json->>'decision_id') = $2 LIMIT 1"""


class LogQueryError(Exception):
    """A search of the log is not possible; the message says why in one line."""


@record
class Question:
    """The conditions of a search in the log. A decision must meet all of them; an empty text is no
    condition.
    """

    path: str = ""
    """A part of the path or the query, in any case."""
    verdict: str = ""
    """One of `VERDICTS`."""
    text: str = ""
    """Words that occur anywhere in the event or are its verdict (`allowed`, `denied`), in any case.
    """
    since: str = ""
    """The earliest time, as the log writes times, or a prefix of one: `2026-11-23T10`."""
    until: str = ""
    """The time before which decisions were made, in the same form."""

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> Question:
        """Return the question in a request's query parameters; LogQueryError for an unknown
        parameter or an invalid value. Of a time only the characters are checked.
        """
        check_parameters(fields, cls, LogQueryError)
        question = cls(**fields)
        if question.verdict not in ("", *VERDICTS):
            raise LogQueryError(
                f"the query parameter `verdict` must be one of {', '.join(VERDICTS)}"
            )
        for name in ("since", "until"):
            if not set(getattr(question, name)) <= set("0123456789-:.TZ"):
                raise LogQueryError(
                    f"the query parameter `{name}` must be a time, such as 2026-11-23T10:00"
                )
        return question


def log_files(options: DecisionLogs) -> list[str]:
    """Return the files of a decision log that exist, of a spool at most `FILES`, the newest first;
    [] if no file or spool is configured. OSError if the spool cannot be read.
    """
    if options.file is not None:
        path = options.file.path
        numbered = [f"{path}.{number}" for number in range(1, options.file.keep + 1)]
        return [each for each in (path, *numbered) if os.path.isfile(each)]
    if options.upload is None or not options.upload.spool:
        return []
    files = []
    with os.scandir(options.upload.spool) as parts:
        for part in parts:
            if part.is_dir():
                with os.scandir(part) as entries:
                    names = [each.path for each in entries if each.name.endswith(_ENDS)]
                files += names
    # A journal is newer than chunks, whose names begin with their time.
    return sorted(files, key=os.path.basename, reverse=True)[:FILES]


_ENDS: Final = (".jsonl", ".json.gz")


class Search:
    """One search of the log. `stop` may be called from another thread meanwhile."""

    def __init__(self, files: Callable[[], list[str]]) -> None:
        """Prepare one search; `files` returns the files of the log, the newest first."""
        self._files = files
        self._connection: Any = None
        self._lock = threading.Lock()
        self._stopped = False

    def stop(self) -> None:
        """End the search soon; it then returns the rows that were read."""
        with self._lock:
            self._stopped = True
            if self._connection is not None:
                self._connection.interrupt()

    def newest(self, question: Question) -> dict[str, Any]:
        """Return summaries of the newest decisions that match (`decisions`, at most `MOST`), `more`
        if there may be others, and the number of files that were not read (`unread`). Only the
        first `WORDS` words of the question's text count. LogQueryError if the log cannot be read.
        """
        fields = [question.path.lower(), question.verdict, question.since, question.until]
        words = question.text.lower().split()[:WORDS]
        # INVARIANT: SQL gets the number of words, and never a word.
        conditions = [_WORD.format(number=at) for at in range(7, 7 + len(words))]
        sql = _LIST.format(words=" ".join(conditions))
        files = self._some_files()
        # Without conditions the end of the newest file is mostly enough; DuckDB would read all.
        rows = newest_rows(files[0], MOST) if question == Question() else None
        unread = len(files) - 1
        if rows is None or len(rows) < MOST:
            rows, unread = self._rows(sql, fields, MOST, words)
        return {
            "decisions": [_summary(number, row) for number, row in enumerate(rows, start=1)],
            "more": len(rows) == MOST,
            "unread": unread,
        }

    def one(self, decision_id: str) -> dict[str, Any] | None:
        """Return all that the log holds of one decision; None if it has none, or if `stop()` ended
        the search before it was found. LogQueryError if the log cannot be read.
        """
        rows, _ = self._rows(_ONE, [decision_id], 0)
        return _detail(*rows[0]) if rows else None

    def _some_files(self) -> list[str]:
        """Return the files of the decision log; LogQueryError if there are none or they cannot be
        listed.
        """
        try:
            files = self._files()
        except OSError as error:
            raise LogQueryError(f"the decision log cannot be read: {_line(error)}") from None
        if not files:
            raise LogQueryError(
                "no decision log is written: set `decision_logs.file` in the configuration"
            )
        return files

    def _rows(
        self, sql: str, fields: list[str], most: int, words: Sequence[str] = ()
    ) -> tuple[list[Any], int]:
        """Run a SQL query on each file of the log, the newest first, until there are `most` rows or
        `stop` is called. Return the rows, and the number of files that were not read to the end; a
        file that can no longer be opened is skipped and not counted. The query's parameters are the
        file, `fields`, the number of rows that are missing, and `words`; with `most` 0 there is no
        number, and one row is enough. LogQueryError without DuckDB or if a query fails.
        """
        files = self._some_files()
        try:
            import duckdb
        except ImportError:
            raise LogQueryError(
                "DuckDB, which searches the decision log, is not installed: pip "
                "install 'doorward[duckdb]'"
            ) from None
        # Half a character cannot be in a file.
        fields, words = (
            [each.encode("utf-8", "backslashreplace").decode() for each in texts]
            for texts in (fields, words)
        )
        rows: list[Any] = []
        unread = 0
        # A connection of its own, in memory: nothing of a search is left for the next.
        connection = duckdb.connect(config=_CONFIG)
        try:
            with self._lock:
                self._connection = connection
            for file in files:
                if self._stopped or len(rows) >= (most or 1):
                    unread += 1
                    continue
                limit = [most - len(rows)] if most else []
                try:
                    rows += connection.execute(sql, [file, *fields, *limit, *words]).fetchall()
                except duckdb.InterruptException:
                    unread += 1
                except duckdb.IOException:
                    continue  # it was sent, or moved on, meanwhile
        except duckdb.Error as error:
            raise LogQueryError(f"the decision log cannot be read: {_line(error)}") from None
        finally:
            with self._lock:
                self._connection = None
            connection.close()
        return rows, unread


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:LONGEST]


def _summary(number: int, row: Any) -> dict[str, Any]:
    """Return one row of the list, in the form of `rows.row_of`, from the columns of `_LIST`; long
    texts are cut.
    """
    decision_id, time, path, verdict, text, bundles, eval_ns, claims, note = row
    input = _document(text)
    caller = caller_of(input, claims=_payload(_document(claims)))
    noted = _note(_document(note))
    return {
        "number": number,
        "id": decision_id[:LONGEST],
        "time_ms": _time_ms(time),
        "moment": time,
        "path": path[:SHORT],
        "verdict": verdict,
        "request": request(input)[:SHORT],
        "user": noted["user"] or caller.user,
        "role": noted["role"] or caller.role,
        "reason": noted["reason"],
        "revision": noted["revision"] or _revision(_document(bundles)),
        "eval_us": (parse_digits(str(eval_ns)) or 0) / 1000,
    }


def _note(value: Any) -> dict[str, str]:
    """Return the console's note in an event, which `rows.note_for_log` wrote, cut to `SHORT`
    characters each; "" for each field that is missing.
    """
    known = value if isinstance(value, dict) else {}
    names = ("user", "role", "reason", "revision")
    texts = {name: known.get(name) for name in names}
    return {name: text[:SHORT] if isinstance(text, str) else "" for name, text in texts.items()}


def _payload(claims: Any) -> Any:
    """Return the claims of the first verified token in an event's `custom.claims`; None if there is
    none.
    """
    tokens = [*claims.values()] if isinstance(claims, dict) else []
    return tokens[0].get("payload") if tokens and isinstance(tokens[0], dict) else None


def _document(text: str | None) -> Any:
    """Parse a JSON column; None if `text` is None or invalid."""
    try:
        return None if text is None else to_python(from_json(text.encode("utf-8", "replace")))
    except ValueError:
        return None


def _revision(bundles: Any) -> str:
    """The revisions in an event's `bundles`, joined by commas and cut to `SHORT` characters; "" if
    there are none.
    """
    known = bundles.values() if isinstance(bundles, dict) else ()
    texts = [str(each.get("revision", "")) for each in known if isinstance(each, dict)]
    return ", ".join(texts)[:SHORT]


def _time_ms(text: str) -> int:
    """Return an ISO time, UTC by default, in milliseconds since the epoch; 0 if it is not valid."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return 0
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def _detail(text: str | None, verdict: str) -> dict[str, Any]:
    """Return one event of the log in the form of `views.detail`, credentials masked. `text` is its
    JSON, None if it is too long; then, or if it is not an object, the result has only `error`.
    `verdict` is the one that the search found.
    """
    event = _document(text)
    if not isinstance(event, dict):
        return {"error": f"the event is longer than {SHOWN:,} characters"}
    public = hide_credentials({name: event[name] for name in ("input", "result") if name in event})
    path = event.get("query", event.get("path", ""))
    metrics = event.get("metrics")
    eval_ns = metrics.get("timer_rego_query_eval_ns") if isinstance(metrics, dict) else 0
    custom = event.get("custom")
    custom = custom if isinstance(custom, dict) else {}
    noted = _note(custom.get("console"))
    caller = caller_of(event.get("input"), claims=_payload(custom.get("claims")))
    hidden = [name for key in ("erased", "masked") for name in _names(event.get(key))]
    document = {
        "id": str(event.get("decision_id", "")),
        "time_ms": _time_ms(str(event.get("timestamp", ""))),
        "path": path if isinstance(path, str) else json.dumps(path),
        "verdict": verdict,
        "user": noted["user"] or caller.user,
        "role": noted["role"] or caller.role,
        "reason": noted["reason"],
        "revision": noted["revision"] or _revision(event.get("bundles")),
        "eval_us": eval_ns / 1000 if isinstance(eval_ns, (int, float)) else 0.0,
        "has_input": True,
        "hidden": [*hidden, *_names(public.get("erased")), *_names(public.get("masked"))],
        "from_log": True,
    }
    for name in ("input", "result"):
        if name in public:
            document[name] = to_python(public[name])
    if event.get("error") is not None:
        document["error"] = event["error"]
    return document | _rules(custom) | response_of(custom, hidden)


def _names(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _rules(custom: Any) -> dict[str, Any]:
    """Return the definitions in an event's `custom.rules`: `rules` that answered and `failed` ones,
    in the form of explanations.
    """
    noted = custom.get("rules") if isinstance(custom, dict) else None
    rules = [each for each in noted if isinstance(each, dict)] if isinstance(noted, list) else []
    rule_rows = [
        {
            "text": str(each.get("path", "")),
            "file": str(each.get("file", "")),
            "row": each.get("failed", each.get("row", 0)),
            "rule": "",
            "has_failed": "failed" in each,
        }
        for each in rules
    ]
    return {
        "rules": [each for each in rule_rows if not each["has_failed"]],
        "failed": [each for each in rule_rows if each["has_failed"]],
    }
