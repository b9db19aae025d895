"""`doorward test`: tests written in Rego, with the flags, formats and exit codes of `opa test`."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from doorward.base.collector import gc_paused
from doorward.base.counting import counted
from doorward.base.os_errors import io_message
from doorward.base.records import record, replace
from doorward.bundles.bundle import BundleError
from doorward.bundles.loader import Loaded, LoadError
from doorward.bundles.sources import Sources
from doorward.cli import capabilities, colors, extensions, saved_programs, schemas
from doorward.cli.arguments import argument, style_option
from doorward.cli.durations import seconds
from doorward.cli.errors import OneOf, for_people, warn
from doorward.cli.findings import github, sarif
from doorward.cli.waiting import waiting
from doorward.pdp.reload import changes, read_signature
from doorward.rego import REGISTRY, Diagnostic, RegoError
from doorward.rego.shared import CALL_ERRORS
from doorward.testing import Coverage, Result, Suite, Test, run, why
from doorward.testing.bench import (
    Measured,
    bench_gobench,
    bench_json,
    bench_pretty,
    measure,
)
from doorward.testing.parallel import run_parallel
from doorward.testing.reports import (
    XmlSuite,
    json_report,
    junit_report,
    pretty,
    result_line,
    unmet,
)

if TYPE_CHECKING:
    from doorward.search.proofs import Verdict

__all__ = ["command"]

_DEFAULT_TIMEOUT: Final = "5s"
_WATCHING: Final = "*" * 80 + "\nWatching for changes ..."
_BENCH: Final = {"pretty": bench_pretty, "json": bench_json, "gobench": bench_gobench}


@record
class _Request:
    """The options of one call of `doorward test`."""

    style: str
    verbose: bool
    explain: str | None
    exit_zero_on_skipped: bool
    coverage: bool
    threshold: float
    timeout: float | None
    processes: int
    count: int
    junit: Path | None


@click.command(
    "test",
    epilog="""\b
Examples:
  doorward test policies/
  doorward test -v -r 'authz.*allow' policy.rego policy_test.rego
  doorward test --threshold 90 policies/              # ends with 2 below 90 % of lines
  doorward test --junit report.xml policies/          # for CI, beside the report for people
""",
)
@argument("paths", nargs=-1, help="Files and folders with policies, data and tests.")
@click.option("-v", "--verbose", is_flag=True, help="List passed tests too.")
@click.option(
    "-r",
    "--run",
    "pattern",
    default="",
    help="Run only tests whose names match this regular expression.",
)
@style_option("pretty", "json", "junit", "sarif", "github", "gobench", "markdown", default="pretty")
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File to write JUnit XML to as well.",
)
@click.option(
    "-c", "--coverage", is_flag=True, help="Report the lines that were evaluated, as JSON."
)
@click.option(
    "--threshold",
    type=float,
    default=0.0,
    help="Exit with 2 if the coverage is below this percentage.",
)
@click.option(
    "--timeout", default="0s", metavar="DURATION", help="Time limit for each test; default 5s."
)
@click.option(
    "--fail-on-empty", is_flag=True, help="Exit with 1 if there are no tests and no properties."
)
@click.option("-t", "--target", type=OneOf("rego", flag="-t, --target"), hidden=True)
@click.option(
    "-z",
    "--exit-zero-on-skipped",
    is_flag=True,
    help="Exit with 0, as if all had passed, if tests were skipped and none failed.",
)
@click.option(
    "--explain",
    type=click.Choice(["fails", "full", "notes", "debug", "off"]),
    help="Trace to print of failed tests.",
)
@click.option(
    "--mutate",
    is_flag=True,
    help="Mutation testing: report conditions that no test checks, with --format pretty, json or "
    "markdown.",
)
@click.option(
    "--mutate-time", default="1m", show_default=True, help="Time limit for mutation testing."
)
@click.option("--bench", is_flag=True, help="Measure the time of each test.")
@click.option(
    "--benchmem",
    is_flag=True,
    help="With --bench: report the memory that is still in use at the end of a test.",
)
@click.option(
    "--var-values",
    is_flag=True,
    help="Accepted for compatibility with OPA: values of variables are always shown.",
)
@click.option("--count", type=click.IntRange(1), default=1, help="Number of runs of each test.")
@click.option(
    "-m",
    "--max-errors",
    default=10,
    show_default=True,
    help="Maximum number of errors to report; 0 reports all.",
)
@click.option(
    "-p",
    "--parallel",
    type=click.IntRange(0),
    default=0,
    help="Number of processes; 0 uses all CPUs.",
)
@click.option(
    "--ignore",
    multiple=True,
    help="Skip files and folders with this name or pattern, such as '.*', in folders; repeatable.",
)
@click.option("-b", "--bundle", is_flag=True, help="Read paths as bundles: folders or .tar.gz.")
@click.option("-w", "--watch", is_flag=True, help="Run again when a file changes, until Ctrl-C.")
@schemas.option
@capabilities.option
@extensions.option
@saved_programs.option
@click.option("--v0-compatible", is_flag=True, help="Read policies as Rego v0.")
@click.option("--v1-compatible", is_flag=True, hidden=True)
def command(paths: tuple[str, ...], pattern: str, count: int, **options: Any) -> int:
    """Run the tests in files and folders: rules whose name begins with `test_`.

    Rules whose name begins with `never_` are properties: an input that makes one true is a failed
    test. `doorward prove` searches longer for such inputs.

    A failed test shows which conditions did not hold, and their values. The exit code is 2 if a
    test failed or was skipped (1 with --coverage or --threshold), or if the coverage is too low; 1
    if the policies cannot be used; otherwise 0.
    """
    if not paths:
        raise click.UsageError("specify at least one file")
    if not 0 <= options["threshold"] <= 100:
        click.echo("Code coverage threshold must be between 0 and 100", err=True)
        return 1
    if options["style"] == "gobench" and not options["bench"]:
        click.echo(
            "cannot use output format gobench without running benchmarks (--bench)", err=True
        )
        return 0
    if options["benchmem"] and not options["bench"]:
        raise click.UsageError("--benchmem needs --bench")
    if options["bench"] and (options["coverage"] or options["threshold"] > 0):
        click.echo("coverage reporting is not supported when benchmarking tests", err=True)
        return 1
    if options["junit"] and (options["bench"] or options["mutate"]):
        raise click.UsageError("--junit cannot be combined with --bench or --mutate")
    if options["style"] == "markdown" and not options["mutate"]:
        raise click.UsageError("the output format markdown needs --mutate")
    request = _Request(
        style=options["style"],
        verbose=options["verbose"] or options["explain"] is not None,
        explain=options["explain"],
        exit_zero_on_skipped=options["exit_zero_on_skipped"],
        coverage=options["coverage"] or options["threshold"] > 0,
        threshold=options["threshold"],
        timeout=seconds(options["timeout"], "--timeout") or seconds(_DEFAULT_TIMEOUT),
        processes=options["parallel"] or os.cpu_count() or 1,
        count=count,
        junit=options["junit"],
    )
    sources = Sources(
        paths=() if options["bundle"] else paths,
        bundles=paths if options["bundle"] else (),
        ignore=options["ignore"],
        v0=options["v0_compatible"],
    )
    if options["watch"]:
        return _watch(sources, lambda: _once(sources, pattern, request, options))
    return _once(sources, pattern, request, options)


def _once(sources: Sources, pattern: str, request: _Request, options: dict[str, Any]) -> int:
    """Load and compile the policies, run the tests and return the exit code, 1 if the policies
    cannot be used. The tests run --count times, or until a run fails. With --bench or --mutate they
    are measured or mutated instead.
    """
    try:
        with waiting("reading policies and data"):
            loaded = sources.load()
        warn(loaded.notes)
        with waiting("compiling"), gc_paused():
            suite = Suite(
                loaded,
                v0=options["v0_compatible"],
                max_errors=options["max_errors"],
                registry=extensions.registry_for(options["builtins"], sources.all_paths),
                capabilities=options["capabilities"],
                schemas=schemas.read_schemas(options["schema"]),
                saved=saved_programs.saved_programs(),
            )
            if not options["watch"]:
                # The policies stay until the process ends: no collection needs to visit them.
                gc.freeze()
        tests = suite.matching(pattern)
    except BundleError as error:
        click.echo(f"unable to load bundle {error.path}: {error}", err=True)
        return 1
    except (LoadError, RegoError, *CALL_ERRORS) as error:
        text = for_people(error) if isinstance(error, RegoError) else str(error)
        colors.echo(text, "errors", err=True)
        return 1
    properties = _property_names(suite, pattern)
    if not tests and not properties and options["fail_on_empty"]:
        click.echo("no tests were run", err=True)
        return 1
    if options["bench"]:
        return _bench(suite, tests, request.style, memory=options["benchmem"])
    if options["mutate"]:
        return _mutate(suite, loaded, request, sources, options)
    verdicts = _check_properties(loaded, properties, sources, options) if properties else []
    codes = (_run(suite, tests, request, verdicts) for _ in range(request.count))
    return next((code for code in codes if code), 0)


def _property_names(suite: Suite, pattern: str) -> list[str]:
    """Return the names of the `never_` rules, such as `data.app.never_x`, in which the regular
    expression `pattern` matches anywhere; [] if there are none.
    """
    if not suite.has_properties:
        return []
    from doorward.search.proofs import properties_of  # few policies have one

    find = REGISTRY["regex.match"].call
    return [each.name for each in properties_of(suite.engine) if find(pattern, each.name)]


def _check_properties(
    loaded: Loaded, names: Sequence[str], sources: Sources, options: dict[str, Any]
) -> list[Verdict]:
    """Return the verdict on each named `never_` rule: proved, refuted by a request, or unknown."""
    from doorward.testing.properties import check_properties

    registry = extensions.registry_for(options["builtins"], sources.all_paths)
    v0 = options["v0_compatible"]
    with waiting(f"proving {counted(len(names), 'rule')}"):
        return check_properties(loaded, v0=v0, registry=registry, names=names)


def _mutate(
    suite: Suite, loaded: Loaded, request: _Request, sources: Sources, options: dict[str, Any]
) -> int:
    """Run mutation tests for --mutate-time, print the report and return the exit code: 0; 2 if a
    surviving mutant decides a known request differently, or if a test fails without any mutant.
    """
    from doorward.cli.mutation import mutate  # tests alone do not need it

    failed = [result for result in run(suite, timeout=request.timeout) if _is_bad(result, request)]
    if failed:
        colors.echo(pretty(failed, verbose=False), "tests", nl=False)
        return 2
    registry = extensions.registry_for(options["builtins"], sources.all_paths)
    duration = seconds(options["mutate_time"], "--mutate-time") or 60.0
    v0 = options["v0_compatible"]
    return mutate(suite, loaded, request.style, v0=v0, registry=registry, seconds=duration)


def _watch(sources: Sources, run: Callable[[], int]) -> int:
    """Call `run` now and after each change of a file, until Ctrl-C or SIGTERM; return exit code
    0.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    known = read_signature(sources.files)
    try:
        run()
        click.echo(_WATCHING)
        for _ in changes(sources.files, known, time.sleep):
            run()
            click.echo(_WATCHING)
    except KeyboardInterrupt:
        click.echo()
    return 0


def _run(
    suite: Suite, tests: Sequence[Test], request: _Request, verdicts: Sequence[Verdict]
) -> int:
    """Run the tests, print the report, write that of --junit, and return the exit code: 2 if a test
    failed or was skipped (unless --exit-zero-on-skipped), or a `never_` rule has a counterexample;
    else 0. With coverage, `_cover` determines the output and the exit code.
    """
    coverage = Coverage() if request.coverage else None
    with waiting(f"running {counted(len(tests), 'test')}"):
        results = list(
            run_parallel(
                suite, tests, request.processes, timeout=request.timeout, coverage=coverage
            )
        )
    if request.junit is not None:
        xml = _report(suite, results, replace(request, style="junit"), verdicts)
        _write(request.junit, xml)
    if coverage is not None:
        return _cover(suite, results, coverage, request, verdicts)
    report = _report(suite, results, request, verdicts)
    if request.style == "pretty":
        colors.echo(report, "tests", nl=False)
    else:
        click.echo(report, nl=False)
    is_bad = any(_is_bad(result, request) for result in results) or any(
        each.is_broken for each in verdicts
    )
    return 2 if is_bad else 0


def _write(path: Path, text: str) -> None:
    """Write a report to a file; raise ClickException if that fails."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(io_message("open", str(path), error)) from None


def _bench(suite: Suite, tests: Sequence[Test], style: str, *, memory: bool) -> int:
    """Measure the tests, print the figures in the format `style` and return the exit code: 2 if a
    test failed, else 0. A failed test has no figures, but a line on standard error; a skipped one
    has neither. `memory` adds figures of memory.

    Raise UsageError for an output format that benchmarks do not have.
    """
    if style not in _BENCH:
        raise click.UsageError(
            f"the output format of benchmarks must be one of {{{','.join(_BENCH)}}}"
        )
    measured: list[Measured] = []
    failed = False
    for each in measure(suite, tests, memory=memory):
        if isinstance(each, Measured):
            measured.append(each)
        elif each.outcome != "SKIPPED":
            failed = True
            click.echo(result_line(each), err=True)
    click.echo(_BENCH[style](measured), nl=False)
    return 2 if failed else 0


def _is_bad(result: Result, request: _Request) -> bool:
    """Return True unless a test passed, or was skipped and --exit-zero-on-skipped is set."""
    outcome = result.outcome
    return outcome != "PASS" and not (outcome == "SKIPPED" and request.exit_zero_on_skipped)


def _report(
    suite: Suite, results: Sequence[Result], request: _Request, verdicts: Sequence[Verdict]
) -> str:
    """Return the report on tests and properties in the format of `request`; sarif and github have
    only the failures. JSON never explains a failure, pretty does so only if --explain asks for it.
    """

    def explained(result: Result) -> str:
        return why(suite, result, full=request.explain in ("full", "debug"))

    if request.style in ("sarif", "github"):
        findings = [_finding(result, explained) for result in results if _is_bad(result, request)]
        findings += [_report_broken(verdict) for verdict in verdicts if verdict.is_broken]
        return sarif(findings) + "\n" if request.style == "sarif" else github(findings)
    if request.style == "json":
        return json_report(results, _property_documents(verdicts)) + "\n"
    if request.style == "junit":
        return junit_report(results, explained, _property_suites(verdicts))
    is_explained = request.explain not in ("off", "notes")
    text = pretty(results, verbose=request.verbose, why=explained if is_explained else None)
    return text + _property_text(verdicts, verbose=request.verbose)


# Few policies have properties: what reports them is imported for those.


def _property_documents(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the JSON documents of the properties' verdicts; imports nothing if there are none."""
    if not verdicts:
        return []
    from doorward.testing.properties import property_documents

    return property_documents(verdicts)


def _property_suites(verdicts: Sequence[Verdict]) -> list[XmlSuite]:
    """Return the JUnit suites of the properties' verdicts; imports nothing if there are none."""
    if not verdicts:
        return []
    from doorward.testing.properties import property_suites

    return property_suites(verdicts)


def _property_text(verdicts: Sequence[Verdict], *, verbose: bool) -> str:
    """Return the text lines of the properties' verdicts, "" if there are none."""
    if not verdicts:
        return ""
    from doorward.testing.properties import property_lines

    return property_lines(verdicts, verbose=verbose)


def _finding(result: Result, explained: Callable[[Result], str]) -> Diagnostic:
    """Return a test that did not pass as a finding, with its explanation or error."""
    message = "to do"
    if result.outcome == "FAIL":
        message = explained(result)
    elif result.error is not None:
        message = str(result.error)
    return Diagnostic(
        f"test_{result.outcome.lower()}", f"{result.test}\n{message}", result.test.span
    )


def _report_broken(verdict: Verdict) -> Diagnostic:
    """Return a property's counterexample as an error at its rule."""
    from doorward.search.proofs import lines_of

    return Diagnostic("property_fail", "\n".join(lines_of(verdict)), verdict.subject.span)


def _cover(
    suite: Suite,
    results: Sequence[Result],
    coverage: Coverage,
    request: _Request,
    verdicts: Sequence[Verdict],
) -> int:
    """Print the coverage of a finished test run and return exit code 0. Print no coverage, and
    return 1, if a test failed or was skipped; return 2 if a `never_` rule has a counterexample or
    the coverage is below the threshold. The verdicts on `never_` rules are always printed, on
    standard error.
    """
    # The report on coverage is alone on standard output.
    click.echo(_property_text(verdicts, verbose=request.verbose), err=True, nl=False)
    if any(result.outcome != "PASS" for result in results):
        click.echo(unmet(results, lambda result: why(suite, result)), err=True)
        return 1
    if any(verdict.is_broken for verdict in verdicts):
        return 2
    percent = coverage.percent(suite.trees)
    if percent < request.threshold:
        click.echo(
            "Code coverage threshold not met: "
            f"got {percent:.2f} instead of {request.threshold:.2f}",
            err=True,
        )
        return 2
    click.echo(coverage.report(suite.trees))
    return 0
