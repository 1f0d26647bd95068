"""`jumar run`: a script as `python` would run it, with the NPU present."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from jumar.base.errors import UsageError
from jumar.cli.help import more_option
from jumar.cli.main import Command
from jumar.cli.options import Npu, npu_options
from jumar.show.terminal.tell import tell

if TYPE_CHECKING:
    from jumar.capture.frameworks.tensorflow.run import TensorFlowEnd
    from jumar.capture.plans.plan import RecordPlan
    from jumar.capture.process.program import Program
    from jumar.device import DevicePlan
    from jumar.recording import RunEnd

SCRIPT_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Everything after SCRIPT goes to the script, also what looks like an option of Jumar."""


@click.command(cls=Command, context_settings=SCRIPT_SETTINGS)
@npu_options
@click.option("--steps", type=click.IntRange(1), metavar="N", help="End the script after N training steps.")
@click.option(
    "--summary",
    "wants_summary",
    is_flag=True,
    help="Emulated NPU only: print memory, format conversions, compiles, host operators and an estimated step time.",
)
@more_option(
    "--tuned",
    is_flag=True,
    help="Compile the script's models with the policies of the bank, as torch.compile(model, backend='jumar') does.",
)
@more_option(
    "--budget",
    metavar="ERROR",
    help="With --tuned: allow this error (1e-2, 1%), for which `jumar tune --precision auto --budget` chose plans.",
)
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(
    *,
    npu: Npu,
    steps: int | None,
    wants_summary: bool,
    tuned: bool,
    budget: str | None,
    script: Path,
    arguments: tuple[str, ...],
) -> int:
    """Run SCRIPT as `python SCRIPT ARGS` would, with an NPU present.

    With torch_npu installed that is the real NPU, else an emulated one: `torch.device("npu")`,
    `import torch_npu` and torch.npu work, and every operator is computed on the CPU. A script of MindSpore with
    device_target="Ascend" runs on the CPU under MindSpore, and its options are checked. Processes that the
    script starts see the same NPU. The exit code is the script's own.

    With AOE_MODE=1 (subgraphs), 2 (operators) or 4 (gradients) in the environment the script is tuned instead, as
    `jumar tune SCRIPT` does: it runs for its first steps, and what it computed is tuned.

    Example: jumar run --steps 3 train.py --epochs 1
    """
    if os.environ.get("AOE_MODE", "").strip() and not _is_tensorflow(script, arguments):
        _refuse_beside_tuning({"--steps": steps, "--summary": wants_summary, "--tuned": tuned, "--budget": budget})
        return _tune(npu, script, arguments)
    from jumar.capture.plans.claims import claim
    from jumar.capture.process.program import parse_program
    from jumar.capture.process.script import check_entries, run_program

    program = parse_program([str(script), *arguments])
    check_entries(program)
    from jumar.capture.frameworks.choice import framework_of

    framework = framework_of(program)
    if framework == "tensorflow":
        refused = {"--summary": wants_summary, "--tuned": tuned, "--budget": budget}
        if given := [name for name, value in refused.items() if value]:
            raise UsageError(f"{' and '.join(given)}: only for PyTorch scripts. Leave it out for TensorFlow.")
        is_named = click.get_current_context().get_parameter_source("soc") is not ParameterSource.DEFAULT
        return _run_tensorflow(program, steps, npu.plan().soc if is_named else None)
    if framework == "mindspore":
        refused = {"--summary": wants_summary, "--tuned": tuned, "--budget": budget}
        if given := [name for name, value in refused.items() if value]:
            raise UsageError(f"{' and '.join(given)}: only for PyTorch scripts. Leave it out for MindSpore.")
        from jumar.cli.commands.doctor.failed import with_doctor

        emulates = rounds(npu.plan())
        end = with_doctor(
            program, lambda: run_mindspore_script(program, plan=None, stop_after=steps, emulates=emulates)
        )
        for sentence in end.not_covered:
            tell(f"jumar: not shown: {sentence}", err=True)
        if end.status == "stopped":
            tell(f"jumar: stopped after {end.num_steps} steps under MindSpore.", err=True)
        return end.exit_code
    claim()
    from jumar.device import activate

    plan = npu.plan()
    active = activate(plan)
    os.environ.update(plan.to_environment())
    if wants_summary and active.description != "npu (emulated)":
        raise UsageError(f'"--summary" needs the emulated NPU; this run has {active.description}. Leave it out.')
    if budget is not None and not tuned:
        raise UsageError('"--budget" is the error that a tuned model may have; add --tuned, or leave it out.')
    if tuned:
        from jumar.capture.process.plugin import ENVIRONMENT
        from jumar.tune.job.script import PLUGIN
        from jumar.tune.measure.options import ERROR_BUDGET, parse_error

        if budget is not None:
            os.environ[ERROR_BUDGET] = str(parse_error(budget, "--budget"))
        os.environ[ENVIRONMENT] = PLUGIN  # also for processes that the script starts
    from jumar.cli.commands.doctor.failed import with_doctor

    with _summary(wants_summary) as on_step:
        end = with_doctor(program, lambda: run_program(program, plan=None, stop_after=steps, on_step=on_step))
    from jumar.show.pages.runs import tell_cuda, tell_launcher

    tell_cuda(program, end, used_npu=used_npu())
    tell_launcher(program, ["jumar", "run"], end)
    if end.status == "stopped":
        tell(f"jumar: stopped after {end.num_steps} steps on {active.description}.", err=True)
    return end.exit_code


def _is_tensorflow(script: Path, arguments: tuple[str, ...]) -> bool:
    from jumar.capture.frameworks.choice import framework_of
    from jumar.capture.process.program import parse_program

    return script.is_file() and framework_of(parse_program([str(script), *arguments])) == "tensorflow"


def _run_tensorflow(program: Program, steps: int | None, soc: str | None) -> int:
    """Run a TensorFlow script with the adapter's names, print what was asked in vain, and return the exit code."""
    from jumar.capture.frameworks.tensorflow.run import run_tensorflow

    end = run_tensorflow(program, stop_after=steps, soc=soc)
    _tell_tensorflow(end)
    if end.status == "stopped":
        tell(f"jumar: stopped after {end.num_steps} steps under TensorFlow.", err=True)
    return end.exit_code


def _tell_tensorflow(end: TensorFlowEnd) -> None:
    if end.no_effect:
        tell(f"jumar: without effect here: {', '.join(end.no_effect)}", err=True)
    for sentence in end.not_shown:
        tell(f"jumar: not shown: {sentence}", err=True)


def record_tensorflow_script(
    program: Program,
    *,
    plan: RecordPlan,
    stop_after: int | None,
    soc: str | None = None,
    on_step: Callable[[int], None] | None = None,
) -> RunEnd:
    """Record a TensorFlow script, print what it asked of an NPU in vain, and return how it ended."""
    from jumar.capture.frameworks.tensorflow.run import run_tensorflow

    end = run_tensorflow(program, plan=plan, stop_after=stop_after, soc=soc, on_step=on_step)
    _tell_tensorflow(end)
    assert end.recorded is not None
    return end.recorded


def run_mindspore_script(
    program: Program,
    *,
    plan: RecordPlan | None,
    stop_after: int | None,
    emulates: bool,
    on_step: Callable[[int], None] | None = None,
) -> RunEnd:
    """Run a MindSpore script, print what it asked of an NPU in vain, and return how it ended."""
    from jumar.capture.frameworks.mindspore.context import tell_no_effect
    from jumar.capture.frameworks.mindspore.run import run_mindspore

    end, contexts = run_mindspore(program, plan=plan, stop_after=stop_after, emulates=emulates, on_step=on_step)
    for line in tell_no_effect(contexts):
        tell(f"jumar: {line}", err=True)
    return end


def rounds(plan: DevicePlan) -> bool:
    """Tell whether operators of a MindSpore script for Ascend are to be rounded as there."""
    return plan.kind == "npu" and plan.numerics == "strict"


def used_npu() -> bool:
    """Return whether this process has put anything on an NPU."""
    import torch

    npu = torch.get_device_module("npu")
    return any(npu.max_memory_allocated(index) > 0 for index in range(npu.device_count()))


def _refuse_beside_tuning(given: Mapping[str, object]) -> None:
    """Refuse options of a run that AOE_MODE turns into a tuning, where they would do nothing."""
    names = [name for name, value in given.items() if value]
    if names:
        raise UsageError(
            f"AOE_MODE={os.environ['AOE_MODE'].strip()} tunes the script instead of running it, and "
            f"{' and '.join(names)} would do nothing. Unset AOE_MODE, or leave these options out."
        )


def _tune(npu: Npu, script: Path, arguments: tuple[str, ...]) -> int:
    """Tune what the script computes, as AOE_MODE asks."""
    from jumar.capture.process.script import read_script
    from jumar.cli.commands.tune import command as tune
    from jumar.cli.commands.tune.gradients import tune_inside
    from jumar.cli.commands.tune.request import JOB_GRADIENTS
    from jumar.tune.job.gradients.inside import is_inside
    from jumar.tune.measure.conditions.settings import aoe_mode

    job_type = aoe_mode(os.environ)
    if job_type == JOB_GRADIENTS and is_inside(os.environ):
        from jumar.capture.plans.claims import claim
        from jumar.device import activate

        claim()
        activate(npu.plan())
        return tune_inside([str(script), *arguments])
    if job_type != JOB_GRADIENTS:  # whose SCRIPT may be a launcher
        read_script(script)  # `jumar tune` would take what is no script for a recording
    os.environ.update(npu.plan().to_environment())
    context = click.get_current_context()
    code: int = context.invoke(tune, recording=script, arguments=arguments, job_type=job_type)
    return code


@contextlib.contextmanager
def _summary(wanted: bool) -> Iterator[Callable[[int], None] | None]:
    """Yield the function to call after each step; print the summary at the end, also of a script that failed."""
    if not wanted:
        yield None
        return
    from jumar.npu.profiler.summary import watch
    from jumar.show.pages.runs import tell_summary

    with watch() as watching:
        try:
            yield lambda _step: watching.end_step()
        finally:
            tell_summary(watching.summary())
