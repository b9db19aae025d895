"""`doorward bench`: how long a query takes, measured and shown as `opa bench` does."""

from __future__ import annotations

import math
import statistics
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from random import Random
from time import perf_counter_ns
from typing import Any, Final

import click

from doorward.base.collector import gc_paused
from doorward.base.records import record, replace
from doorward.bundles.loader import LoadError
from doorward.bundles.sources import Sources
from doorward.cli import extensions, saved_programs, schemas
from doorward.cli.arguments import argument, bundle_option, data_option, style_option
from doorward.cli.errors import OneOf, documents_text, for_people, warn
from doorward.cli.input_document import read_input
from doorward.cli.metrics import percentile
from doorward.cli.queries import read_query
from doorward.cli.results import frame_rows
from doorward.rego import (
    Engine,
    Environment,
    Options,
    PartialOptions,
    RegoError,
    Undefined,
    Value,
    compile,
)
from doorward.rego.golang import indent, object_text
from doorward.rego.shared import VerifiedTokens

__all__ = ["command"]

SECONDS: Final = 1.0
"""Seconds for which a query is measured."""
_SAMPLE: Final = 1028
"""The size of the sample for percentiles, the same as in OPA's histograms."""
_PERCENTILES: Final = (75.0, 90.0, 95.0, 99.0, 99.9, 99.99)

Figure = tuple[str, int | float]


@record
class _Measured:
    """The figures of one measurement: evaluations, their total time, and the distribution of
    times.
    """

    rounds: int
    total_ns: int
    histogram: Sequence[Figure]
    """The distribution of the durations of single evaluations, under OPA's names."""
    blocks: int = 0
    """The memory blocks that an evaluation holds at its end; 0 for a server, where it is
    unknown."""
    octets: int = 0
    """The bytes of these blocks."""


@click.command(
    "bench",
    epilog="""\b
Examples:
  doorward bench -d policy.rego -i input.json data.envoy.authz.allow
  doorward bench -f gobench --count 5 -b bundle/ data.authz.allow
""",
)
@argument("query", nargs=-1, help="Query to measure, such as data.authz.allow.")
@data_option
@bundle_option
@click.option("-i", "--input", "inputs", multiple=True, metavar="PATH", help="Input document.")
@click.option("-I", "--stdin-input", is_flag=True, help="Read the input from standard input.")
@click.option("--stdin", is_flag=True, help="Read the query from standard input.")
@style_option("pretty", "json", "gobench", default="pretty")
@click.option("--count", type=click.IntRange(1), default=1, help="Number of measurements.")
@click.option(
    "--benchmem/--no-benchmem",
    default=True,
    help="Report the memory that is still in use at the end of an evaluation.",
)
@click.option(
    "--metrics/--no-metrics",
    default=True,
    help="Report percentiles, mean and extremes of the times.",
)
@click.option(
    "--fail/--no-fail",
    default=True,
    help="Exit with 1 if the query is undefined; this is the default.",
)
@click.option("-p", "--partial", "partially", is_flag=True, help="Evaluate partially.")
@click.option(
    "-u",
    "--unknowns",
    multiple=True,
    default=("input",),
    metavar="PATH",
    help="With --partial: document to treat as unknown, such as input.user; repeatable. "
    "Default: input.",
)
@click.option("--package", default="", help="Package in which the query is evaluated.")
@click.option("--import", "imports", multiple=True, help="Import for the query; repeatable.")
@click.option(
    "--ignore",
    multiple=True,
    help="Skip files and folders with this name or pattern, such as '.*', in folders; repeatable.",
)
@schemas.option
@extensions.option
@saved_programs.option
@click.option("--e2e", is_flag=True, help="Measure over HTTP, with a server started for it.")
@click.option(
    "-c", "--config-file", help="With --e2e: configuration file of the server that is measured."
)
@click.option(
    "--shutdown-grace-period",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="With --e2e: seconds that open requests have to finish when the server stops.",
)
@click.option(
    "--shutdown-wait-period",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="With --e2e: seconds that the server keeps serving after a signal to stop.",
)
@click.option("--v0-compatible", is_flag=True, help="Read policies and query as Rego v0.")
@click.option("-t", "--target", type=OneOf("rego", flag="-t, --target"), hidden=True)
@click.option("--optimize-store-for-read-speed", is_flag=True, expose_value=False, hidden=True)
def command(query: tuple[str, ...], **options: Any) -> int:
    """Measure how long QUERY takes on policies, data and an input.

    The query is compiled once and evaluated for a second. The exit code is 1 on an error or if the
    query is undefined. With --e2e, the command starts a server, measures it over HTTP, and also
    shows the server's own metrics.
    """
    text = read_query(query, stdin=options["stdin"], stdin_input=options["stdin_input"])
    try:
        input = read_input(options["inputs"], stdin=options["stdin_input"])
        if options["e2e"]:
            _bench_server(text, input, options)
            return 0
        ask, timer = _prepare_query(text, input, options)
        if not ask() and options["fail"]:
            raise LoadError(["undefined result"])

        def timed() -> dict[str, int]:
            """Evaluate once and return the nanoseconds that it took, under the name of the
            timer.
            """
            before = perf_counter_ns()
            ask()
            return {timer: perf_counter_ns() - before}

        for _ in range(options["count"]):
            blocks, octets = _memory(ask)
            measured = replace(_measure(timed), blocks=blocks, octets=octets)
            click.echo(_as_text(measured, options), nl=False)
    except (LoadError, RegoError) as error:
        if options["style"] == "json":
            errors = object_text({"errors": documents_text(error)})
            click.echo(indent(errors, "", "  "))
        else:
            click.echo(for_people(error), err=True)
        return 1
    return 0


def _prepare_query(
    text: str, input: Value | Undefined, options: dict[str, Any]
) -> tuple[Callable[[], object], str]:
    """Return a function that evaluates the query once, and OPA's name of the timer for it.

    The function's result is false if the query is undefined. Compiles here; raise LoadError or
    RegoError.
    """
    engine = _engine(options)
    package, imports = options["package"], options["imports"]
    if options["partially"]:
        chosen = PartialOptions(package=package, imports=tuple(imports))
        question = engine.prepare_partial(text, options["unknowns"], chosen)

        def partial() -> object:
            return question.evaluate(input).queries

        return partial, "timer_rego_partial_eval_ns"
    query = engine.prepare(text, package=package, imports=imports)

    def evaluate() -> object:
        """Evaluate the query once and return its rows. Constants, values that depend on data alone,
        are computed again: otherwise only the first evaluation would pay for them.
        """
        evaluation = query.evaluation(input)
        # What depends on data alone would be computed once and then only looked up.
        evaluation.constants = {}
        return query.rows_of(evaluation)

    return evaluate, "timer_rego_query_eval_ns"


def _engine(options: dict[str, Any]) -> Engine:
    """Load and compile the policies and data that the options name; raise LoadError or
    RegoError.
    """
    sources = Sources(
        paths=options["data"],
        bundles=options["bundle"],
        ignore=options["ignore"],
        v0=options["v0_compatible"],
    )
    loaded = sources.load()
    warn(loaded.notes)
    settings = Options(
        v0=sources.v0,
        rego_versions=loaded.rego_versions,
        registry=extensions.registry_for(options["builtins"], sources.all_paths),
        schemas=schemas.read_schemas(options["schema"]),
        metadata=True,
        environment=Environment(tokens=VerifiedTokens()),
        saved=saved_programs.saved_programs(),
    )
    with gc_paused():
        engine = compile(loaded.modules, settings).bind(loaded.data)
        engine.check_data()
    return engine


def _bench_server(text: str, input: Value | Undefined, options: dict[str, Any]) -> None:
    """Start a server, measure the query over HTTP and print the figures; raise LoadError if it
    fails.
    """
    from doorward.cli.bench_server import BenchServer, arguments_of, question

    path, body = question(text, input, options)
    grace = options["shutdown_grace_period"] + options["shutdown_wait_period"]
    with BenchServer(arguments_of(options), grace=grace) as server:

        def ask() -> dict[str, int]:
            """Send one request and return the integer metrics of its answer, such as timers in
            nanoseconds.

            Raise LoadError if the result is undefined and --fail is set.
            """
            answer = server.ask(path, body)
            result = answer.get("result")
            if options["fail"] and (result is None or (options["partially"] and not result)):
                raise LoadError(["undefined result"])
            metrics = answer.get("metrics", {}).items()
            return {name: value for name, value in metrics if type(value) is int}

        # Not measured: the first request also pays for the connection and for compiling its query.
        ask()
        for _ in range(options["count"]):
            click.echo(_as_text(_measure(ask), options), nl=False)


class _Times:
    """The durations under one name: a random sample, the extremes and their number."""

    def __init__(self) -> None:
        self.sample: list[int] = []
        self.count = 0
        self.shortest, self.longest = math.inf, 0
        self._chance = Random(0)

    def note(self, took: int) -> None:
        """Add a duration in nanoseconds; once the sample is full it may replace a random entry.

        Each duration has the same chance to be in the sample (reservoir sampling).
        """
        self.count += 1
        self.shortest, self.longest = min(self.shortest, took), max(self.longest, took)
        # Each time has the same chance to be among those that are kept.
        if len(self.sample) < _SAMPLE:
            self.sample.append(took)
        elif (index := self._chance.randrange(self.count)) < _SAMPLE:
            self.sample[index] = took


def _measure(ask: Callable[[], Mapping[str, int]]) -> _Measured:
    """Call `ask` for `SECONDS`, at least once, and return the figures of the durations it
    returns.
    """
    times: dict[str, _Times] = {}
    rounds = 0
    started = now = perf_counter_ns()
    end = started + int(SECONDS * 1e9)
    while now < end or not rounds:
        for name, took in ask().items():
            times.setdefault(name, _Times()).note(took)
        now = perf_counter_ns()
        rounds += 1
    named = [
        (f"histogram_{name}_{figure}", value)
        for name, each in sorted(times.items())
        for figure, value in _figures(
            sorted(each.sample), each.count, int(each.shortest), each.longest
        )
    ]
    return _Measured(rounds, now - started, named)


def _figures(times: Sequence[int], rounds: int, shortest: int, longest: int) -> list[Figure]:
    """Return the distribution of durations under OPA's names and in its order. `times` is a sorted
    sample of the durations; `rounds`, `shortest` and `longest` are the number and the extremes of
    all.
    """
    percentiles = [(f"{share:g}%", percentile(times, share / 100)) for share in _PERCENTILES]
    return [
        *percentiles,
        ("count", rounds),
        ("max", longest),
        ("mean", statistics.fmean(times)),
        ("median", percentile(times, 0.5)),
        ("min", shortest),
        ("stddev", statistics.pstdev(times)),
    ]


def _memory(ask: Callable[[], object]) -> tuple[int, int]:
    """Return the number of memory blocks, and their bytes, that one evaluation holds with its
    answer.
    """
    tracemalloc.start()
    try:
        answer = ask()
        traces = tracemalloc.take_snapshot().traces
        del answer
    finally:
        tracemalloc.stop()
    sizes = [trace.size for trace in traces]
    return len(sizes), sum(sizes)


def _as_text(measured: _Measured, options: dict[str, Any]) -> str:
    """Return the figures as a table, as JSON or as a line of Go's benchmarks, with a final
    newline.
    """
    histogram = measured.histogram if options["metrics"] else ()
    if options["style"] == "json":
        extra = {name: _json_number(value) for name, value in histogram}
        fields = {
            "N": str(measured.rounds),
            "T": str(measured.total_ns),
            "Bytes": "0",
            "MemAllocs": str(measured.blocks * measured.rounds),
            "MemBytes": str(measured.octets * measured.rounds),
            "Extra": object_text(dict(sorted(extra.items()))),
        }
        return indent(object_text(fields), "", "  ") + "\n"
    per_round = measured.total_ns // measured.rounds
    memory = [("B/op", measured.octets), ("allocs/op", measured.blocks)]
    memory_rows = memory if options["benchmem"] and not options["e2e"] else []
    if options["style"] == "gobench":
        figures = [("ns/op", per_round), *histogram, *memory_rows]
        texts = [f"{int(value):10d} {name}" for name, value in figures]
        return "\t".join(["BenchmarkOPAEval", f"{measured.rounds:8d}", *texts]) + "\n"
    rows = [("samples", measured.rounds), ("ns/op", per_round), *memory_rows, *histogram]
    return frame_rows(*[(name, f"{int(value):10d}") for name, value in rows])


def _json_number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
