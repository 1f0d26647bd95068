"""What `jumar run --summary` prints: one line a subject, on stderr, after the script's own output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from jumar.words import counted

if TYPE_CHECKING:
    from jumar.device.emulator.summary import Summary

MAX_SENTENCES = 3
MAX_OPERATORS = 4
WIDTH = 13


def echo(summary: Summary) -> None:
    """Print the summary to stderr."""
    click.secho(f"jumar: {counted(summary.num_steps, 'step')} on an emulated {summary.soc}", bold=True, err=True)
    for title, text in lines(summary):
        click.echo(f"  {title:<{WIDTH}}{text}", err=True)


def lines(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield title and text of each line; a title that is empty continues the one above."""
    for device in summary.memory:
        yield (
            f"npu:{device.index}",
            f"at most {_size(device.allocated_bytes)} allocated, {_size(device.reserved_bytes)} reserved, of "
            f"{_size(device.capacity_bytes)}",
        )
    counts = summary.counts
    yield "operators", f"{counts.num_executions:,} run{_on_host(summary)}"
    if counts.num_transdata:
        most = max(counts.transdata_by_operator.items(), key=lambda item: item[1])
        yield (
            "conversions",
            f"{counts.num_transdata:,} TransData, {_size(counts.transdata_bytes)}; {most[1]:,} of them for {most[0]}",
        )
    if counts.num_compiles:
        first = counts.steps[0].num_compiles
        yield "compiles", f"{first:,} in the first step, {counts.num_compiles - first:,} after it"
    for number, sentence in enumerate(summary.recompiling[:MAX_SENTENCES]):
        yield "" if number or counts.num_compiles else "compiles", sentence
    if summary.step_us is not None:
        assumed = f", with {counted(len(summary.assumed), 'assumed figure')} of the chip" if summary.assumed else ""
        yield "estimate", f"{summary.step_us / 1e3:,.2f} ms a step: a model's figure, not a measurement{assumed}"


def _on_host(summary: Summary) -> str:
    if not summary.host_operators:
        return ", all on the device"
    names = [f"{name} ({number:,})" for name, number in list(summary.host_operators.items())[:MAX_OPERATORS]]
    more = len(summary.host_operators) - len(names)
    return f"; on the host, for want of an NPU kernel: {', '.join(names)}" + (f" and {more} more" if more else "")


def _size(num_bytes: int) -> str:
    """Return bytes as people read them, in powers of 1024 as memory is counted."""
    value, unit = float(num_bytes), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
