"""`jumar record`: a script under the observer, a recording out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

import click
from click.core import ParameterSource

from jumar.base.errors import UsageError
from jumar.base.text import SIZE_HELP
from jumar.capture.plans.plan import (
    DEFAULT_LEVELS,
    DEFAULT_VALUES,
    LEVELS_FOR_TUNING,
    VALUES_FOR_TUNING,
    Compiled,
    RecordPlan,
    Vary,
)
from jumar.cli.commands.run import SCRIPT_SETTINGS, used_npu
from jumar.cli.help import more_option
from jumar.cli.main import EXIT_FINE, EXIT_INTERRUPTED, EXIT_USAGE, Command
from jumar.cli.options import Npu, force_option, npu_options, parse_steps
from jumar.recording import Level, Values
from jumar.show.terminal.tell import tell

if TYPE_CHECKING:
    from jumar.recording import RunEnd


def _write_collector(context: click.Context, _: click.Parameter, folder: Path | None) -> None:
    """Write the collector of TensorFlow programs, and say how it is used."""
    if folder is None or context.resilient_parsing:
        return
    from jumar.capture.frameworks.tensorflow.pack import write_collector

    path = write_collector(folder)
    tell(
        f"Wrote {path}: copy it to the machine that trains (TensorFlow 1.15 or 2.x, Python 3.7 or later, NumPy).\n"
        f"  there:  python {path.name} -o collected train.py\n"
        "  here:   jumar compare REFERENCE collected"
    )
    context.exit()


@click.command(cls=Command, context_settings=SCRIPT_SETTINGS)
@more_option(
    "--collector",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    is_eager=True,
    expose_value=False,
    callback=_write_collector,
    help="Write jumar_collector.pyz into DIR and do nothing else: it records TensorFlow programs where Jumar "
    "cannot be installed.",
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Folder for the recording."
)
@click.option(
    "--device",
    type=click.Choice(["npu", "cuda", "cpu"]),
    default="npu",
    show_default=True,
    help="Device to bring up: npu is emulated without torch_npu; without a GPU, cuda is CPU kernels; "
    "cpu brings up no device.",
)
@npu_options
@click.option(
    "--level",
    "levels",
    default=",".join(DEFAULT_LEVELS),
    show_default=True,
    metavar="LEVELS",
    help="What becomes a row: calls of modules, of operators, or both; with optimizer, the optimizer's own operators "
    "have values too.",
)
@click.option(
    "--values",
    type=click.Choice(get_args(Values)),
    default=DEFAULT_VALUES,
    show_default=True,
    help="What to keep of each tensor besides its shape: nothing, a hash, statistics, statistics and a sketch (to "
    "estimate the relative error of two runs), or all values (large).",
)
@click.option(
    "--steps",
    metavar="START:END",
    help="Steps to record, from 0, END left out; the script ends after them.  [default: all]",
)
@more_option("--go-on", is_flag=True, help="Let the script run on after the last of --steps.")
@more_option(
    "--budget",
    metavar="SIZE,PERCENT",
    help="Greatest size of the recording, slowdown of the run, or both: 200MB,20%. The recording names what was left "
    "out. " + SIZE_HELP + "  [default: no limit]",
)
@more_option(
    "--tensors-of",
    "suspects",
    multiple=True,
    metavar="PATTERN|FILE",
    help="Keep the whole tensors of these rows only: a row's key, a pattern such as '*/blocks.1*/aten::gelu/*' "
    "('3:*/…' in step 3 alone), or the file of `jumar compare --suspects`. May be given again.",
)
@more_option(
    "--compiled",
    type=click.Choice(get_args(Compiled)),
    default="borders",
    show_default=True,
    help="Regions of torch.compile whose back end makes its own kernels: what goes in and comes out, or each "
    "operator of the graph, which then runs in place of the kernels.",
)
@more_option(
    "--vary",
    type=click.Choice([way for way in get_args(Vary) if way]),
    default=None,
    help="Run under other conditions, to measure the noise floor for `jumar compare --floor`: another number of "
    "threads, other kernels, or inputs of operators moved by one unit in the last place.",
)
@more_option(
    "--for-tuning",
    is_flag=True,
    help="The leanest recording that `jumar tune DIR` needs: operators with statistics, of one step unless --steps "
    "says more. Takes the place of --level and --values.",
)
@force_option
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(
    *,
    out: Path,
    device: str,
    npu: Npu,
    levels: str,
    values: Values,
    steps: str | None,
    go_on: bool,
    budget: str | None,
    suspects: tuple[str, ...],
    compiled: Compiled,
    vary: Vary | None,
    for_tuning: bool,
    force: bool,
    script: Path,
    arguments: tuple[str, ...],
) -> int:
    """Run SCRIPT as `python SCRIPT ARGS` would and record what it computes.

    Every operator and module call of the forward, backward and optimizer phases becomes a row: where in the
    model, on which line, with which shapes, how long, and the minimum, maximum, mean, L2 norm, NaN and Inf counts
    of its tensors. The recording does not change a result of the script, and survives a kill: finished steps
    stay readable.

    Record the same script on two devices, then let `jumar compare` name the first operator that differs:

        \b
        jumar record -o reference --device cuda --steps 0:3 train.py
        jumar record -o npu --steps 0:3 train_npu.py
        jumar compare reference npu --suspects suspects.json

    A script that imports MindSpore is recorded under MindSpore, in PyNative mode, with the same rows. See
    jumar docs guide-mindspore.

    Then take the whole tensors of the suspects alone, in a second pass:

        \b
        jumar record -o reference2 --device cuda --steps 0:3 --tensors-of suspects.json train.py
    """
    from jumar.capture.plans.budget import parse_budget
    from jumar.capture.plans.claims import claim
    from jumar.capture.plans.patterns import read_patterns
    from jumar.capture.process.program import parse_program
    from jumar.capture.process.script import check_entries, run_program

    if for_tuning:
        _refuse_others("--for-tuning", ("levels", "--level"), ("values", "--values"))
        levels, values, steps = ",".join(LEVELS_FOR_TUNING), VALUES_FOR_TUNING, steps or "0:1"
    chosen = parse_steps(steps)
    if go_on and chosen is None:
        raise UsageError("--go-on has no effect without --steps: the script goes on anyway. Leave it out.")
    size, slowdown = parse_budget(budget)
    plan = RecordPlan(
        out=str(out),
        levels=cast(tuple[Level, ...], tuple(name.strip() for name in levels.split(","))),  # the plan checks them
        values=values,
        steps=chosen,
        budget_bytes=size,
        budget_slowdown=slowdown,
        tensors_of=read_patterns(suspects),
        compiled=compiled,
        vary=vary or "",
        force=force,
        command=(str(script), *arguments),
    )
    program = parse_program([str(script), *arguments])
    check_entries(program)
    from jumar.capture.frameworks.choice import framework_of
    from jumar.show.pages.runs import StepProgress, tell_cuda, tell_launcher, tell_recorded

    stop_after = chosen[1] if chosen is not None and not go_on else None
    if framework_of(program) == "tensorflow":
        from jumar.cli.commands.run import record_tensorflow_script

        tell(f"jumar: recording {program.title} under TensorFlow into {out}", err=True)
        end = record_tensorflow_script(
            program,
            plan=plan,
            stop_after=stop_after,
            soc=npu.plan_for(device).soc or None,
            on_step=StepProgress(chosen).on_step,
        )
        tell_recorded(out, program.title, end, for_tuning=False)
        return _exit_code(end)
    if framework_of(program) == "mindspore":
        from jumar.cli.commands.run import rounds, run_mindspore_script

        tell(f"jumar: recording {program.title} under MindSpore into {out}", err=True)
        end = run_mindspore_script(
            program,
            plan=plan,
            stop_after=stop_after,
            emulates=rounds(npu.plan_for(device)),
            on_step=StepProgress(chosen).on_step,
        )
        tell_recorded(out, program.title, end, for_tuning=False)
        return _exit_code(end)
    claim()
    from jumar.cli.commands.doctor.failed import with_doctor
    from jumar.device import activate

    device_plan = npu.plan_for(device)
    os.environ.update(device_plan.to_environment())
    active = activate(device_plan)
    tell(f"jumar: recording {program.title} on {active.description} into {out}", err=True)
    on_step = StepProgress(chosen).on_step
    end = with_doctor(program, lambda: run_program(program, plan=plan, stop_after=stop_after, on_step=on_step))
    tell_recorded(out, program.title, end, for_tuning=for_tuning)
    if device != "cuda":
        tell_cuda(program, end, used_npu=device == "cpu" or used_npu())
    tell_launcher(program, ["jumar", "record", "-o", str(out), "--force", "--device", device], end)
    return _exit_code(end)


def _refuse_others(option: str, *others: tuple[str, str]) -> None:
    """Raise UsageError when an option was given together with one that replaces it."""
    context = click.get_current_context()
    for name, spelled in others:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"{spelled} has no effect together with {option}, which sets it. Leave one out.")


def _exit_code(end: RunEnd) -> int:
    if end.status == "interrupted":
        return EXIT_INTERRUPTED
    return EXIT_USAGE if end.status == "raised" or end.exit_code else EXIT_FINE
