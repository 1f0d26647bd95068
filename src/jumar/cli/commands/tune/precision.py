"""`jumar tune --precision`: its options."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from jumar.base.errors import UsageError
from jumar.cli.options import with_options

if TYPE_CHECKING:
    from jumar.tune.measure.options import PrecisionOptions

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
    from jumar.tune.measure.options import DEFAULT_BUDGET, PrecisionOptions, parse_budget
    from jumar.tune.search.precision.request.files import with_file_read

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
    from jumar.tune.search.precision.request.error import load_metric

    with contextlib.redirect_stdout(sys.stderr):
        load_metric(metric)
