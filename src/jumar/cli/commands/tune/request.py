"""The options of `jumar tune`, and which of them exclude each other."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.base.errors import UsageError
from jumar.cli.help import more_option
from jumar.cli.options import with_options

JOB_GRADIENTS = 4

if TYPE_CHECKING:
    from jumar.tune import TuneOptions
    from jumar.tune.measure.options import PrecisionOptions
    from jumar.tune.search.tasks.extract import Selection

_OPTIONS = (
    more_option(
        "--model-path",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Tune what torch.npu.set_aoe(DIR) described, instead of a recording.",
    ),
    click.option(
        "--job-type",
        type=int,
        metavar="1|2|4",
        help="1 = subgraphs: whole graphs; 2 = operators, one by one; 4 = gradients of a training in several "
        "processes.  [default: AOE_MODE, else 2]",
    ),
    click.option("--time-budget", metavar="TIME", help="End after about this time: 90s, 2m, 1h.  [default: none]"),
    more_option("--trials", type=int, metavar="N", help="Measure at most N candidates.  [default: all]"),
    more_option(
        "--min-gain",
        default="2%",
        show_default=True,
        metavar="PERCENT",
        help="The least gain that counts, beyond doubt.",
    ),
    more_option(
        "--tune-ops-file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE.json",
        help='Tune these operators only: {"tune_ops_name": [...], "tune_ops_type": [...]}.  [default: all]',
    ),
    click.option(
        "--device",
        default="cpu",
        show_default=True,
        metavar="cpu|cuda|npu|npu:SOC",
        help="cpu, cuda and npu (through torch_npu) are measured. npu:Ascend910A, and npu without torch_npu, are "
        "emulated: their times are estimated. Job type 1 is not for cuda.",
    ),
    more_option("--rank", type=int, metavar="N", help="Rank of the recording.  [default: the lowest]"),
)


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command what is searched, for how long, and where."""
    return with_options(command, _OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call. Its fields are the command's parameters."""

    recording: Path | None
    """MODEL, SCRIPT or RECORDING."""
    arguments: tuple[str, ...]
    model_path: Path | None
    job_type: int | None
    time_budget: str | None
    trials: int | None
    min_gain: str
    tune_ops_file: Path | None
    device: str
    rank: int | None
    input_shape: str
    output: Path | None
    fdeeper_opat: bool
    fnonhomo_split: bool
    aoe_config_file: Path | None
    cluster: str | None
    report: Path | None
    precision: str
    budget: str | None
    metric: str
    nproc: int | None
    allreduce: str | None
    times: Path | None
    max_buckets: int | None
    min_bucket: str | None
    max_bucket: str | None
    bank: str | None
    fail_on: str
    as_json: bool

    def path(self) -> Path:
        """Return what is tuned. Raises UsageError unless it is one thing."""
        found = self.recording or self.model_path
        if found is None or (self.recording and self.model_path):
            raise UsageError(
                "jumar tune must be given a MODEL, a SCRIPT, a RECORDING or --model-path DIR, and one of them only."
            )
        return found

    def job(self) -> int:
        """Return the job: `--job-type`, else AOE_MODE, else 2. Raises UsageError for an AOE_MODE that is none."""
        from jumar.tune.measure.conditions.settings import aoe_mode

        return self.job_type if self.job_type is not None else aoe_mode(os.environ) or 2

    def check_job(self) -> None:
        """Refuse what the job that is asked for would pass over. Raises UsageError."""
        places = {
            "--Fnonhomo_split": (1, self.fnonhomo_split),
            "--precision": (1, self.precision != "keep"),
            "--tune-ops-file": (2, self.tune_ops_file is not None),
            "--nproc": (JOB_GRADIENTS, self.nproc is not None),
            "--allreduce": (JOB_GRADIENTS, self.allreduce is not None),
            "--times": (JOB_GRADIENTS, self.times is not None),
            "--max-buckets": (JOB_GRADIENTS, self.max_buckets is not None),
            "--min-bucket": (JOB_GRADIENTS, self.min_bucket is not None),
            "--max-bucket": (JOB_GRADIENTS, self.max_bucket is not None),
        }
        if self.job() == JOB_GRADIENTS:
            self._check_gradients()
        if self.output is not None and self.report is not None and self.output.resolve() == self.report.resolve():
            raise UsageError(f"--output and --report are both {self.output}. Give each a name of its own.")
        for option, (own, is_given) in places.items():
            if is_given and self.job() != own:
                raise UsageError(
                    f"{option} belongs to job type {own}, and this is a job of type {self.job()}. Leave it out, or "
                    f"tune with --job-type {own}."
                )

    def _check_gradients(self) -> None:
        """Refuse what a job of type 4 would pass over. Raises UsageError."""
        places = {
            "--model-path": self.model_path is not None,
            "--trials": self.trials is not None,
            "--input-shape": bool(self.input_shape),
            "--output": self.output is not None,
            "--deeper": self.fdeeper_opat,
            "--aoe-config-file": self.aoe_config_file is not None,
            "--cluster": self.cluster is not None,
            "--report": self.report is not None,
        }
        for option, is_given in places.items():
            if is_given:
                raise UsageError(f"{option} does nothing for a job of type {JOB_GRADIENTS}. Leave it out.")

    def options(self) -> TuneOptions:
        """Return the options of the run. Raises UsageError for a value outside its range."""
        from jumar.tune import TuneOptions
        from jumar.tune.measure.options import parse_duration_s, parse_percent

        return TuneOptions(
            job_type=self.job(),
            time_budget_s=None if self.time_budget is None else parse_duration_s(self.time_budget, "--time-budget"),
            max_trials=self.trials,
            min_gain=parse_percent(self.min_gain, "--min-gain"),
        )

    def selection(self) -> Selection | None:
        """Return which operators `--tune-ops-file` means; None without one."""
        from jumar.tune.search.tasks.extract import read_selection

        return None if self.tune_ops_file is None else read_selection(self.tune_ops_file)


_PRECISION_OPTIONS = (
    click.option(
        "--precision",
        default="keep",
        show_default=True,
        metavar="keep|auto|FILE",
        help="auto searches bf16, fp16 and int8 under --budget; FILE measures a precision file. Job type 1.",
    ),
    click.option("--budget", metavar="ERROR", help="The error that --precision may cost: 1e-2, 1%.  [default: 1e-2]"),
    more_option(
        "--metric",
        default="",
        metavar="MODULE:NAME|FILE.py:NAME",
        help="A callable (outputs, reference_outputs) -> error.  [default: greatest difference / greatest value]",
    ),
)


def precision_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--precision`, `--budget` and `--metric`."""
    return with_options(command, _PRECISION_OPTIONS)


def precision_of(precision: str, budget: str | None, metric: str) -> PrecisionOptions:
    """Return what was asked for; `budget` is None where none was given.

    Raises UsageError for a value outside its range, for a metric that is not there (before an hour of tuning, not
    after it), and for a budget or metric that would do nothing; InputError for a precision file that cannot be read.
    """
    from jumar.tune.measure.options import DEFAULT_BUDGET, PrecisionOptions, parse_budget

    allowed = DEFAULT_BUDGET if budget is None else parse_budget(budget)
    asked = PrecisionOptions(precision=precision, budget=allowed, metric=metric)
    places = {"--budget": budget is not None, "--metric": bool(metric)}
    given = [name for name, is_given in places.items() if is_given]
    if given and not asked.is_asked:
        raise UsageError(f"{' and '.join(given)} would do nothing without --precision auto (or FILE). Add it.")
    if metric:
        _check_metric(metric)
    if asked.file is None:
        return asked
    from jumar.tune.search.precision.request.files import with_file_read

    return with_file_read(asked)


def _check_metric(metric: str) -> None:
    """Import the metric as the process that measures will. Raises UsageError."""
    from jumar.tune.search.precision.request.error import load_metric

    with contextlib.redirect_stdout(sys.stderr):
        load_metric(metric)
