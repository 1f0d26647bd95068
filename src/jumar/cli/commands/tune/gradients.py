"""`jumar tune --job-type 4`: its options, and what it tunes: a training in several processes, or a recording."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.base.errors import InputError, UsageError
from jumar.base.text import SIZE_HELP, parse_size
from jumar.cli.answer import print_answer
from jumar.cli.help import more_option
from jumar.cli.options import open_bank, with_options

if TYPE_CHECKING:
    from jumar.cli.commands.tune.request import Request
    from jumar.tune.job.gradients.messages import GradientOptions
    from jumar.tune.search.gradients.outcome import GradientResult

_OPTIONS = (
    more_option(
        "--nproc",
        type=click.IntRange(2),
        metavar="N",
        help="Start SCRIPT in N processes, by torchrun; of a recording measure the all-reduce between so many. "
        "Job type 4.",
    ),
    more_option(
        "--allreduce",
        metavar="TIME,RATE",
        help="What an all-reduce takes, latency and bandwidth: 200us,10GB/s. Job type 4.  [default: measured]",
    ),
    more_option(
        "--times",
        type=click.Path(path_type=Path),
        metavar="PROFILE",
        help="Take the gradients' ready times of a MindSpore RECORDING from what MindSpore's profiler wrote of the "
        "same network as a graph. Job type 4.",
    ),
    more_option("--max-buckets", type=click.IntRange(1), metavar="N", help="At most N buckets. Job type 4."),
    more_option("--min-bucket", metavar="SIZE", help="Least size of a bucket but the last. Job type 4. " + SIZE_HELP),
    more_option("--max-bucket", metavar="SIZE", help="Greatest size of a bucket. Job type 4. " + SIZE_HELP),
)


def gradient_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of job type 4."""
    return with_options(command, _OPTIONS)


def tune_gradients(request: Request) -> int:
    """Split the gradients of a training or a recording, print the answer and return the exit code."""
    from jumar.tune.measure.conditions.settings import work_path

    options = _options(request)
    path, folder = request.path(), work_path(os.environ)
    if path.is_dir():
        if request.arguments:
            raise UsageError(f"arguments ({' '.join(request.arguments)}) are for a script, and {path} is none.")
        return told(_of_recording(request, path, folder, options), as_json=request.as_json)
    if request.rank is not None:
        raise UsageError(f"--rank is for a recording of several processes, and {path} is not one. Leave it out.")
    if request.times is not None:
        raise UsageError(f"--times is for a recording of MindSpore, and {path} is none. Leave it out.")
    from jumar.capture.frameworks.choice import must_be_torch
    from jumar.capture.process.program import parse_program

    must_be_torch(parse_program([str(path), *request.arguments]), "jumar tune")
    from jumar.tune.job.gradients.job import tune_training
    from jumar.tune.job.gradients.trial import device_of

    click.echo(f"jumar: running {path} for its first steps in each of its processes", err=True)
    with contextlib.closing(open_bank(request.bank, create=True)) as bank:
        result = tune_training(
            [str(path), *request.arguments],
            bank=bank,
            result_folder=folder,
            options=options,
            device=device_of(request.device),
        )
    return told(result, as_json=request.as_json)


def _of_recording(request: Request, path: Path, folder: Path, options: GradientOptions) -> GradientResult:
    """Split the gradients of a recording. Raises InputError for a folder that is none."""
    from jumar.recording.documents import is_recording
    from jumar.tune.job.gradients.offline.solved import tune_recording

    if not is_recording(path):
        raise InputError(
            f"{path} must be a recording for --job-type 4. A profile has times and no parameters; a recording has "
            "their order and sizes. Record one whole step: jumar record -o FOLDER --steps 3 train.py. For MindSpore "
            f"give both: jumar tune FOLDER --job-type 4 --times {path}."
        )
    return tune_recording(path, result_folder=folder, options=options, rank=request.rank, times=request.times)


def tune_inside(words: Sequence[str]) -> int:
    """Split the gradients of the training that this process is one of; the first process answers."""
    import time

    from jumar.capture.process.program import parse_program
    from jumar.tune.job.gradients.inside import is_first, run_inside
    from jumar.tune.job.gradients.job import answered
    from jumar.tune.job.gradients.messages import GradientOptions
    from jumar.tune.job.gradients.messages import Request as Asked
    from jumar.tune.measure.conditions.settings import repeat_tune, work_path

    program, began = parse_program(words), time.monotonic()
    if not is_first(os.environ):
        run_inside(program, Asked())
        return 0
    folder, options = work_path(os.environ), GradientOptions(repeat=repeat_tune(os.environ))
    with contextlib.closing(open_bank(None, create=True)) as bank:
        bank.check_writable()
        answer = run_inside(program, options.request(bank))
        result = answered(answer, program.title, bank=bank, result_folder=folder, options=options, began=began)
    return told(result, as_json=False)


def told(result: GradientResult, *, as_json: bool) -> int:
    """Print a result; return the exit code: 1 where the gradients of the proposal were wrong."""
    if as_json:
        print_answer(result)
    else:
        from jumar.show import print_page
        from jumar.show.tuning.gradients import gradients_page

        print_page(gradients_page(result), more="`--json` prints every gradient with its ready time.")
    return int(bool(result.disagreement))


def _options(request: Request) -> GradientOptions:
    """Return the options of the run. Raises UsageError for a value outside its range."""
    from jumar.tune.job.gradients.messages import GradientOptions
    from jumar.tune.measure.conditions.settings import repeat_tune
    from jumar.tune.measure.options import parse_duration_s, parse_percent
    from jumar.tune.search.gradients.model import parse_link
    from jumar.tune.search.gradients.solve import Bounds

    least, most = (
        None if text is None else parse_size(text, option)
        for text, option in ((request.min_bucket, "--min-bucket"), (request.max_bucket, "--max-bucket"))
    )
    return GradientOptions(
        bounds=Bounds(max_buckets=request.max_buckets, min_bytes=least or 0, max_bytes=most),
        link=None if request.allreduce is None else parse_link(request.allreduce),
        num_processes=request.nproc,
        min_gain=parse_percent(request.min_gain, "--min-gain"),
        time_budget_s=None if request.time_budget is None else parse_duration_s(request.time_budget, "--time-budget"),
        repeat=repeat_tune(os.environ),
    )
