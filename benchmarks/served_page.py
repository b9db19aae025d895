"""What `benchmarks.served` measured, as the table and the plot of a page, next to the goals."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path

__all__ = ["IN_FLIGHT", "Measured", "write"]

IN_FLIGHT = (1, 2, 4, 8, 16, 32)
"""Of the plot; the rows of the table are some of these."""
PICTURE = "served.svg"
BEGIN, END = "<!-- served: begin -->", "<!-- served: end -->"
GOALS = {
    ("Check, 1 in flight", "doorward, log off"): 45,
    ("Check, 8 in flight", "doorward, log off"): 28,
    ("Check, 8 in flight", "doorward, log on"): 55,
    ("Check, 32 in flight", "doorward, log off"): 28,
    ("Check, 32 in flight", "doorward, log on"): 55,
    ("POST /v1/data, 16 connections", "doorward, log off"): 50,
    ("POST /v1/data, 16 connections", "doorward, log on"): 75,
    ("AuthZReq, 1 connections", "doorward, audit log"): 80,
    ("AuthZReq, each another, 1 connections", "doorward, audit log"): 80,
    ("AuthZReq, 8 connections", "doorward, audit log"): 80,
    ("AuthZReq, each another, 8 connections", "doorward, audit log"): 80,
    ("AuthZReq, 1 connections", "doorward, no audit log"): 60,
    ("AuthZReq, each another, 1 connections", "doorward, no audit log"): 60,
    ("AuthZReq, 8 connections", "doorward, no audit log"): 60,
    ("AuthZReq, each another, 8 connections", "doorward, no audit log"): 60,
    ("Behind Envoy, 8 connections", "doorward, log off"): 60,
}
"""Microseconds that a row should cost at most."""
OURS, OPAS, BARE = "doorward, log off", "opa, log off", "bare"
ONE, TWO = "doorward, 1 workers", "doorward, 2 workers"
RATIOS = (
    (
        "p50 behind Envoy at 1 connection over OPA's",
        "Behind Envoy, 1 ",
        "p50",
        OURS,
        OPAS,
        "≤ 0.45",
    ),
    ("the same of a constant answer", "Behind Envoy, 1 ", "p50", BARE, OPAS, ""),
    ("p50 behind Envoy at 8 over OPA's", "Behind Envoy, 8 ", "p50", OURS, OPAS, "≤ 0.32"),
    ("the same of a constant answer", "Behind Envoy, 8 ", "p50", BARE, OPAS, ""),
    (
        "requests/s of two workers over one's, 200 µs each",
        "Check of 200 µs",
        "rate",
        TWO,
        ONE,
        "≥ 1.8",
    ),
    ("requests per CPU second of two workers over one's", "Check, by", "least", ONE, TWO, "≥ 0.9"),
    (
        "least share of a worker of two, behind Envoy",
        "Behind Envoy, by",
        "share",
        TWO,
        ONE,
        "≥ 0.4",
    ),
)
"""What is compared: the start of a row's name, what of it, of which server over which, the goal."""
Measured = dict[str, dict[str, dict[str, float]]]


def page(measured: Measured) -> str:
    """What was measured, as the table of a page."""
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    lines = [
        "| work | server | least µs | median µs | goal | p50 ms | requests/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for work, servers in measured.items():
        for name, row in servers.items():
            goal = GOALS.get((work, name))
            least = f"{row['least']:.0f}"
            shown = f"**{least}**" if goal is not None and row["least"] > goal else least
            lines.append(
                f"| {work} | {name} | {shown} | {row['median']:.0f} | {goal or ''} |"
                f" {row['p50'] / 1000:.2f} | {row['rate']:,.0f} |"
            )
    return "\n".join(
        [
            "Written by `python -m benchmarks.served --markdown docs/performance.md`: CPU of all",
            "processes of a server for each request, least and median of interleaved rounds.",
            "What misses its goal is set in bold.",
            f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()};",
            f"load of the machine (1, 5, 15 minutes) when it was written: {load}.",
            "",
            *lines,
            "",
            *compared(measured),
        ]
    )


def compared(measured: Measured) -> list[str]:
    """What servers of one row are to each other, as the table of a page."""
    lines = ["| comparison | value | goal |", "|---|---|---|"]
    for name, start, key, ours, theirs, goal in RATIOS:
        for work, servers in measured.items():
            if work.startswith(start) and ours in servers and theirs in servers:
                value = servers[ours][key] / servers[theirs][key]
                is_met = not goal or (
                    value <= float(goal[2:]) if goal.startswith("≤") else value >= float(goal[2:])
                )
                shown = f"{value:.2f}" if is_met else f"**{value:.2f}**"
                lines.append(f"| {name} | {shown} | {goal} |")
    return lines


def plot(measured: Measured) -> str:
    """The time of a Check over the calls in flight, a line for each server; both logarithmic."""
    rows = {n: measured[f"Check, {n} in flight"] for n in IN_FLIGHT}
    names = list(rows[1])
    colours = ("#3a7", "#7b5", "#c53", "#e97", "#a36")
    width, height, left, bottom = 720, 360, 60, 320
    times = [row[name]["p50"] for row in rows.values() for name in names]
    low, high = math.log10(min(times)), math.log10(max(times))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="11">'
    ]

    def point(n: int, microseconds: float) -> tuple[float, float]:
        x = left + 420 * math.log2(n) / math.log2(IN_FLIGHT[-1])
        return x, bottom - 290 * (math.log10(microseconds) - low) / (high - low)

    for n in IN_FLIGHT:
        x, _ = point(n, min(times))
        parts.append(f'<text x="{x:.0f}" y="{bottom + 16}" text-anchor="middle">{n}</text>')
        parts.append(f'<line x1="{x:.0f}" y1="24" x2="{x:.0f}" y2="{bottom}" stroke="#ddd"/>')
    parts.append(f'<text x="{left}" y="{bottom + 34}">calls in flight; time of one in ms</text>')
    for number, name in enumerate(names):
        colour = colours[number % len(colours)]
        points = [point(n, rows[n][name]["p50"]) for n in IN_FLIGHT]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for n in (IN_FLIGHT[0], IN_FLIGHT[-1]):
            x, y = point(n, rows[n][name]["p50"])
            text = f"{rows[n][name]['p50'] / 1000:.2f}"
            parts.append(f'<text x="{x:.0f}" y="{y - 4:.0f}" fill="{colour}">{text}</text>')
        y = 40 + 18 * number
        parts.append(f'<text x="{left + 460}" y="{y}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


def write(target: Path, measured: Measured) -> None:
    """Put the table between its marks in a page, and the plot beside the page."""
    before, rest = target.read_text().split(BEGIN)
    _, after = rest.split(END)
    target.write_text(f"{before}{BEGIN}\n{page(measured)}\n{END}{after}")
    (target.parent / PICTURE).write_text(plot(measured))
