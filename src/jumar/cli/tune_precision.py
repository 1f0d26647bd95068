"""`jumar tune --precision`: its options, and what it says on the terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from jumar.cli.options import with_options
from jumar.errors import UsageError

if TYPE_CHECKING:
    from jumar.report.page import Cell, Section
    from jumar.tune import TuneResult
    from jumar.tune.precision.front import Point
    from jumar.tune.precision.options import PrecisionOptions
    from jumar.tune.precision.outcome import PrecisionOutcome

_OPTIONS = (
    click.option(
        "--precision",
        default="keep",
        show_default=True,
        metavar="keep|auto|FILE",
        help="auto searches bf16, fp16 and int8 under --budget; FILE measures a precision file. Job type 1.",
    ),
    click.option("--budget", metavar="ERROR", help="The error that --precision may cost: 1e-2, 1%.  [default: 1e-2]"),
    click.option(
        "--metric",
        default="",
        metavar="MODULE:NAME|FILE.py:NAME",
        help="A callable (outputs, reference_outputs) -> error.  [default: greatest difference / greatest value]",
    ),
)


def precision_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--precision`, `--budget` and `--metric`."""
    return with_options(command, _OPTIONS)


def precision_of(precision: str, budget: str | None, metric: str) -> PrecisionOptions:
    """Return what was asked for; `budget` is None where none was given.

    Raises UsageError for a value outside its range, for a metric that is not there (before an hour of tuning, not
    after it), and for a budget or metric that would do nothing; InputError for a precision file that cannot be read.
    """
    from jumar.tune.precision.files import with_file_read
    from jumar.tune.precision.options import DEFAULT_BUDGET, PrecisionOptions, parse_budget

    allowed = DEFAULT_BUDGET if budget is None else parse_budget(budget)
    asked = PrecisionOptions(precision=precision, budget=allowed, metric=metric)
    places = {"--budget": budget is not None, "--metric": bool(metric)}
    given = [name for name, is_given in places.items() if is_given]
    if given and not asked.is_asked:
        raise UsageError(f"{' and '.join(given)} would do nothing without --precision auto (or FILE). Add it.")
    if metric:
        _check_metric(metric)
    return with_file_read(asked)


def _check_metric(metric: str) -> None:
    """Import the metric as the process that measures will. Raises UsageError."""
    from jumar.tune.precision.error import load_metric

    with contextlib.redirect_stdout(sys.stderr):
        load_metric(metric)


def precision_sections(result: TuneResult) -> list[Section]:
    """Return, for each graph whose precision was searched, its measured points of latency and error."""
    from jumar.report.page import Section

    return [Section(title=f"Precision of {one.name}", blocks=_blocks(one)) for one in result.precisions if one.points]


def _blocks(one: PrecisionOutcome) -> list[Any]:
    from jumar.report.page import Column, KeyValues, Table

    front = one.front()
    columns = [
        Column(title="Point", code=True),
        Column(title=""),
        Column(title="Error", number=True),
        Column(title="Time", unit="us", number=True),
        Column(title="Times as fast", number=True),
        Column(title="95 % interval"),
        Column(title="Pairs", number=True),
    ]
    rows = [_row(point, one, front) for point in sorted(one.points, key=lambda point: point.gain.ratio)]
    facts: list[tuple[str, Cell]] = [("Budget", f"{one.budget:g} by {one.metric or 'the greatest output error'}")]
    facts += [("File", str(path)) for path in one.files]
    facts += [("Note", note) for note in one.notes]
    if one.stopped_by:
        facts.append(("Stopped by", one.stopped_by))
    return [Table(columns=columns, rows=rows), KeyValues(items=facts)]


def _row(point: Point, one: PrecisionOutcome, front: list[Point]) -> list[Cell]:
    gain = point.gain
    interval = "" if point.is_reference else f"{gain.ratio_low:.2f} to {gain.ratio_high:.2f}"
    name = point.name if point.plan.regions else "eager"
    return [name, _standing(point, one, front), point.error, point.time_us, gain.ratio, interval, gain.num_pairs]


def _standing(point: Point, one: PrecisionOutcome, front: list[Point]) -> str:
    if point is one.chosen:
        return "chosen"
    words = "reference" if point.is_reference else "" if any(point is other for other in front) else "beaten"
    over = "" if point.fits(one.budget) else "over budget"
    return ", ".join(filter(None, (words, over)))
