"""`jumar tune`: a model, a script or a recording in; what is faster on this machine, a bank and a result file out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.base.errors import JumarError, OutputError, UsageError
from jumar.cli.answer import print_answer
from jumar.cli.commands.tune.gradients import gradient_options, tune_gradients
from jumar.cli.commands.tune.model import (
    check_output,
    check_single,
    model_options,
    opened_model,
    space_of,
    write_artefact,
)
from jumar.cli.commands.tune.request import JOB_GRADIENTS, Request, precision_of, precision_options, search_options
from jumar.cli.commands.tune.setting import (
    EXIT_TERMINATED,
    check_report,
    runner_of,
    setting_of,
    setting_options,
    write_report,
)
from jumar.cli.commands.tune.vendor import AoeCommand
from jumar.cli.main import EXIT_INTERRUPTED
from jumar.cli.options import bank_option, exit_code, fail_on_option, json_option, open_bank

if TYPE_CHECKING:
    from jumar.tune import Machine, TuneResult
    from jumar.tune.search.tasks.extract import Selection
    from jumar.tune.search.tasks.source import Source


INTERRUPTED = {"Ctrl-C": EXIT_INTERRUPTED, "SIGTERM": EXIT_TERMINATED}


@click.command(cls=AoeCommand)
@click.argument("recording", type=click.Path(path_type=Path), required=False, metavar="[MODEL|SCRIPT|RECORDING]")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]...")
@search_options
@model_options
@setting_options
@precision_options
@gradient_options
@bank_option
@fail_on_option
@json_option
def command(**given: Any) -> int:
    """Find faster ways to compute a model on this machine, and prove each.

    MODEL is an .onnx file, a torch.export .pt2 file, module:callable, which returns a model, or (model, inputs), or a
    model of TensorFlow: a frozen .pb file, a SavedModel folder, a .keras or .h5 file, which tf2onnx converts.
    Job type 1 gives its whole graph to the engine, or the engines, that compute it fastest, with the best number of
    threads, pieces of the batch and memory; job type 2 tunes each distinct operator call. A policy counts only if
    its outputs agree and a paired measurement shows it faster beyond doubt; it then goes into the knowledge bank,
    where torch.compile(model, backend="jumar") finds it. A model that is not faster is left as it was.
    What the bank knows is not measured again (REPEAT_TUNE=True does). Ctrl-C and SIGTERM keep what was found; the
    next run goes on from there, also after a kill or a reboot.

    A SCRIPT is run unchanged for its first step; its own options follow `--`. Of a RECORDING the operators are tuned.
    Job type 4 cuts the gradients of a training in several processes into buckets, and measures them against its own.

    Example: jumar tune models:resnet50 --job-type 1 --time-budget 10m --output resnet50.jumar

    Options may be written as those of the vendor's aoe, with underscores; those without an effect here are named.

    Example: jumar tune recording --time-budget 2m

    Example: jumar tune --job_type=2 --model_path=./dump_path

    Example: jumar tune train.py --job-type 1 -- --epochs 1

    Example: jumar tune train.py --job-type 4 --nproc 2
    """
    from jumar.tune.model.process import Terminated, ending_in_order

    request = Request(**given)
    try:
        if request.job() == JOB_GRADIENTS:
            request.check_job()
            with ending_in_order():
                return tune_gradients(request)
        result, failure = _tuned(request, began=time.monotonic())
    except Terminated:
        click.echo("jumar: ended by SIGTERM before anything was measured.", err=True)
        return EXIT_TERMINATED
    return _told(request, result, failure)


def _tuned(request: Request, began: float) -> tuple[TuneResult, JumarError | None]:
    """Check the request and tune; also return why the artefact could not be written."""
    from jumar.show import progress
    from jumar.tune import this_machine, tune
    from jumar.tune.measure.worker.client import Turns
    from jumar.tune.model.process import ending_in_order

    path, job_type = request.path(), request.job()
    machine = this_machine(request.device)
    request.check_job()
    check_report(request.report, str(path))
    check_output(request.output, job_type, str(path))
    precision = precision_of(request.precision, request.budget, request.metric)
    places = {
        "--cluster measures on": request.cluster is not None,
        "--output writes a plan for": request.output is not None,
        "--precision lowers graphs for": precision.is_asked,
    }
    for what, is_given in places.items():
        if machine.device != "cpu" and is_given:
            raise UsageError(f"{what} CPUs, and --device is {request.device}. Leave one of them out.")
    make_runner = runner_of(request.cluster)
    setting = setting_of(job_type, request.aoe_config_file, request.device, is_deep=request.fdeeper_opat)
    selection = setting.selection(request.selection())
    options = setting.applied(request.options())
    space = space_of(setting.config, is_deep=request.fdeeper_opat, is_uneven=request.fnonhomo_split)
    opening = _opened(request, job_type, selection, lambda: options.left_s(time.monotonic() - began))
    with contextlib.closing(open_bank(request.bank, create=True)) as bank, progress() as bars, ending_in_order():
        name = "graphs" if job_type == 1 else "operators"
        task = bars.add_task(f"Tune {name}: reading {path}", total=None)

        def show(done: int, total: int, what: str) -> None:
            bars.update(task, completed=done, total=total, description=f"Tune {what or name}")

        def wait(process: int | None) -> None:
            other = "another run" if process is None else f"the run of process {process}"
            bars.update(task, description=f"Tune {name}: taking turns with {other} on this machine")

        with opening as source:
            check_single(request.output, source)
            result = tune(
                source, bank=bank, result_folder=setting.environment.work_path, options=options, machine=machine,
                rank=request.rank, selection=selection, on_progress=show, conditions=setting.conditions_for(source),
                space=space, make_runner=make_runner, precision=precision, began=began, turns=Turns(on_wait=wait),
            )  # fmt: skip
            return result, _write_output(request, source, result, machine)


def _write_output(request: Request, source: Source | Path, result: TuneResult, machine: Machine) -> JumarError | None:
    """Write the artefact, unless the run was interrupted; an interruption that comes now counts as one of the run.

    Returns why it could not be written; the answer is printed in any case.
    """
    from jumar.tune.model.process import reason

    if request.output is None or result.stopped_by in INTERRUPTED:
        return None
    try:
        write_artefact(request.output, str(request.path()), source, result, machine)
    except KeyboardInterrupt as error:
        result.stopped_by = reason(error)
    except JumarError as error:
        return error
    except OSError as error:
        return OutputError(
            f"{request.output} cannot be written ({error}). Free space, then give the same command again."
        )
    return None


def _told(request: Request, result: TuneResult, failure: JumarError | None) -> int:
    """Write the page, say what was found and return the exit code.

    Raises, after the answer, `failure` or why the page or the result file could not be written.
    """
    from jumar.show import print_page
    from jumar.show.tuning.summary import tune_page

    failure = _write_page(request, result) or failure
    if request.as_json:
        print_answer(result)
    else:
        print_page(tune_page(result), more="`--verbose` prints all of it, `jumar bank show KEY` one operator.")
    if failure is not None:
        raise failure
    if result.result_file_failure:
        raise OutputError(result.result_file_failure)
    if result.stopped_by in INTERRUPTED:
        return INTERRUPTED[result.stopped_by]
    return exit_code(result.findings, request.fail_on)


def _write_page(request: Request, result: TuneResult) -> JumarError | None:
    """Write the page that was asked for; returns why it could not be written."""
    try:
        if request.report is not None:
            write_report(request.report, str(request.path()), result)
    except JumarError as error:
        return error
    return None


@contextlib.contextmanager
def _opened(
    request: Request, job_type: int, selection: Selection | None, left_s: Callable[[], float | None]
) -> Iterator[Source | Path]:
    """Yield what is tuned: a script is run for its first step, a model captured, a recording opened by `tune`.

    `left_s` says how much of the time budget is left for that; None: there is no budget.
    """
    from jumar.tune.graph.capture.source import is_graph_source
    from jumar.tune.job.script import ScriptRun, is_script, script_source

    path, arguments = request.path(), request.arguments
    is_model = is_graph_source(str(path))
    if path.is_dir() and not (is_model or request.input_shape or arguments):
        yield path
        return
    if request.rank is not None and (is_model or is_script(str(path))):
        raise UsageError(f"--rank is for a recording of several processes, and {path} is not one. Leave it out.")
    if request.input_shape and not is_model:
        raise UsageError(f"--input-shape is for a model, and {path} is not one. Leave it out.")
    if is_model and not arguments:
        with opened_model(str(path), request.input_shape, selection, left_s()) as source:
            yield source
        return
    if not is_script(str(path)):
        if arguments:
            raise UsageError(
                f"arguments ({' '.join(arguments)}) are for a script, and {path} is not one. Leave them out."
            )
        yield path
        return
    from jumar.capture.frameworks.choice import must_be_torch
    from jumar.capture.process.program import parse_program

    must_be_torch(parse_program([str(path)]), "jumar tune")
    click.echo(f"jumar: running {path} for its first step", err=True)
    run = ScriptRun(script=path, arguments=arguments, limit_s=left_s())
    with script_source(run, job_type, selection=selection) as source:
        yield source
