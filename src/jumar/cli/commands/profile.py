"""`jumar profile`: a script under the profiler, a folder with its traces out."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.base.errors import UsageError
from jumar.base.text import SIZE_HELP, parse_size
from jumar.capture.profile.plan import ACTIVE, NUM_PLAIN, SKIP, WARM_UP, ProfilePlan, schedule_of
from jumar.cli.commands.run import SCRIPT_SETTINGS
from jumar.cli.help import more_option
from jumar.cli.main import EXIT_FINE, EXIT_INTERRUPTED, EXIT_USAGE, Command
from jumar.cli.options import Npu, force_option, npu_options, parse_steps
from jumar.show.terminal.tell import tell

if TYPE_CHECKING:
    from jumar.device import DevicePlan


@click.command(cls=Command, context_settings=SCRIPT_SETTINGS)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), default=Path("jumar-profile"), show_default=True, metavar="DIR",
    help="Folder for the profile.",
)  # fmt: skip
@click.option(
    "--device",
    type=click.Choice(["auto", "npu", "cuda", "cpu"]),
    default="auto",
    show_default=True,
    help="Device to bring up. auto: none, the script uses what it finds; npu is emulated without torch_npu, "
    "and its times are then estimates; without a GPU, cuda is CPU kernels.",
)
@npu_options
@click.option(
    "--steps", metavar="START:END", help="Steps in the trace, from 0, END left out; in the place of the next three."
)
@click.option("--skip", type=click.IntRange(0), metavar="N", help=f"Steps to pass before.  [default: {SKIP}]")
@more_option(
    "--warm-up", type=click.IntRange(0), metavar="N",
    help=f"Steps in which the profiler runs already and nothing is kept.  [default: {WARM_UP}]",
)  # fmt: skip
@more_option("--active", type=click.IntRange(1), metavar="N", help=f"Steps in the trace.  [default: {ACTIVE}]")
@more_option("--stop", is_flag=True, help=f"End the script {NUM_PLAIN} steps after the last one in the trace.")
@more_option("--ranks", metavar="R,R", help="Ranks to profile.  [default: all]")
@click.option("--shapes/--no-shapes", default=True, show_default=True, help="Note shapes of operators' inputs.")
@more_option("--stacks", is_flag=True, help="Note Python's calls: larger and slower, names source lines.")
@more_option("--memory", "notes_memory", is_flag=True, help="Note allocations; with CUDA also a snapshot of memory.")
@more_option(
    "--time-limit", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
    help="End the trace with the step in which it has lasted so long.  [default: none]",
)  # fmt: skip
@more_option(
    "--growth-limit", metavar="SIZE",
    help="End the trace with the step in which the process has grown by so much. " + SIZE_HELP + "  [default: none]",
)  # fmt: skip
@force_option
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(
    *,
    out: Path,
    device: str,
    npu: Npu,
    steps: str | None,
    skip: int | None,
    warm_up: int | None,
    active: int | None,
    stop: bool,
    ranks: str | None,
    shapes: bool,
    stacks: bool,
    notes_memory: bool,
    time_limit: float | None,
    growth_limit: str | None,
    force: bool,
    script: Path,
    arguments: tuple[str, ...],
) -> int:
    """Run SCRIPT as `python SCRIPT ARGS` would and profile some of its steps.

    The trace (rank-0.json.gz, for Perfetto) holds the operators, the stages of the data loader, garbage collections,
    compilations and their reasons, and waits for the device. The script is not edited.

    \b
        jumar profile -o prof --stop train.py --epochs 1
        jumar profile -o prof torchrun --nproc-per-node 2 train.py
        jumar advise prof
    """
    from jumar.capture.frameworks.choice import must_be_torch
    from jumar.capture.plans.claims import claim
    from jumar.capture.process.processes import must_be_started
    from jumar.capture.process.program import parse_program
    from jumar.capture.process.script import check_entries, run_program

    before, warming, traced = schedule_of(parse_steps(steps), skip, warm_up, active)
    plan = ProfilePlan(
        out=str(out.absolute()),
        skip=before,
        warm_up=warming,
        active=traced,
        ranks=_ranks(ranks),
        shapes=shapes,
        stacks=stacks,
        memory=notes_memory,
        time_limit_s=time_limit,
        growth_limit_bytes=None if growth_limit is None else parse_size(growth_limit, "--growth-limit"),
        stop=stop,
        force=force,
        command=(str(script), *arguments),
    )
    program = parse_program([str(script), *arguments])
    check_entries(program)
    must_be_torch(program, "jumar profile")
    claim()
    from jumar.capture.profile import folder
    from jumar.capture.profile.facts import run_facts
    from jumar.cli.commands.doctor.failed import with_doctor
    from jumar.device import activate
    from jumar.show.pages.profiled import tell_profiled
    from jumar.show.pages.runs import StepProgress, tell_cuda, tell_launcher

    device_plan = _device_plan(device, npu)
    where = ""
    facts = run_facts(None)
    if device_plan is not None:
        os.environ.update(device_plan.to_environment())
        brought_up = activate(device_plan)
        where, facts = f" on {brought_up.description}", run_facts(brought_up)
    if must_be_started(program):
        folder.create(plan, facts)
        plan = replace(plan, prepared=True)
    os.environ.update(plan.to_environment())
    tell(
        f"jumar: profiling {program.title}{where} into {out}: steps {plan.first} to {plan.end - 1}, "
        f"after {plan.skip} skipped and {plan.warm_up} warm-up",
        err=True,
    )
    on_step = StepProgress((plan.first, plan.end), "profiled").on_step
    end = with_doctor(program, lambda: run_program(program, plan=None, stop_after=None, on_step=on_step))
    tell_profiled(out, program.title, folder.settle(Path(plan.out), end.status), end)
    if device != "cuda":
        tell_cuda(program, end, used_npu=True)
    if "No module named 'torch_npu'" in end.error:
        tell("jumar: the script is for an NPU. Give --device npu: the NPU is emulated here.", err=True)
    tell_launcher(program, ["jumar", "profile", "-o", str(out), "--force", "--device", device], end)
    if end.status == "interrupted":
        return EXIT_INTERRUPTED
    return EXIT_USAGE if end.status == "raised" or end.exit_code else EXIT_FINE


def _ranks(text: str | None) -> tuple[int, ...] | None:
    """Return the ranks of `0,2`. Raises UsageError."""
    if text is None:
        return None
    if not re.fullmatch(r"\s*\d+\s*(,\s*\d+\s*)*", text):
        raise UsageError(f'"--ranks {text}" must be ranks with commas. Try --ranks 0,1.')
    return tuple(sorted({int(part) for part in text.split(",")}))


def _device_plan(device: str, npu: Npu) -> DevicePlan | None:
    """Return the plan of the device to bring up; None where the script is to find its own."""
    from jumar.device.plan import is_torch_npu_installed

    if device == "auto":
        return npu.plan() if is_torch_npu_installed() else None
    return npu.plan_for(device)
