"""`jumar overflow`: where NaN, Inf and saturated values of a run come from."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

import click

from jumar.base.errors import UsageError
from jumar.cli.answer import print_answer, write_page
from jumar.cli.commands.run import SCRIPT_SETTINGS
from jumar.cli.help import more_option
from jumar.cli.main import Command
from jumar.cli.options import (
    Npu,
    exit_code,
    fail_on_option,
    force_option,
    json_option,
    npu_options,
    parse_steps,
    report_option,
)
from jumar.recording import Values
from jumar.show.terminal.tell import tell

if TYPE_CHECKING:
    from jumar.capture.process.program import Program
    from jumar.comparison.overflow import Mode
    from jumar.device import DevicePlan
    from jumar.recording import RunEnd


class _ScriptOrRecording(Command):
    """Takes options after a recording; everything after a script is the script's own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, options being looked for everywhere unless one of the arguments is a script."""
        if not any(_is_script(Path(argument)) for argument in args):
            ctx.allow_interspersed_args, ctx.ignore_unknown_options = True, False
        return super().parse_args(ctx, args)


def _is_script(target: Path) -> bool:
    """Return whether a path is run: by its ending, or (without one) by its first two bytes."""
    if target.suffix in {".py", ".pyc"}:
        return True
    if target.suffix or not target.is_file():
        return False
    with target.open("rb") as file:
        return file.read(2) == b"#!"


@click.command(cls=_ScriptOrRecording, context_settings=SCRIPT_SETTINGS)
@click.option(
    "--mode",
    type=click.Choice(["all", "aicore_overflow", "atomic_overflow"]),
    default="all",
    show_default=True,
    help="Operators that compute, atomic additions, or both; from Ascend910B1 on only all.",
)
@click.option("--steps", metavar="START:END", help="Steps to look at, END left out.  [default: all]")
@more_option(
    "--frames",
    type=click.IntRange(1),
    metavar="N",
    help="Print the last N operators before the origin; in --json always there.  [default: 21]",
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), metavar="DIR", help="Keep the recording of a SCRIPT here."
)
@click.option(
    "--values",
    type=click.Choice(get_args(Values)),
    default="stats",
    show_default=True,
    help="What is recorded of a SCRIPT's tensors; counts of NaN and Inf are enough.",
)
@click.option(
    "--device",
    type=click.Choice(["npu", "cuda", "cpu"]),
    default="npu",
    show_default=True,
    help="Device that a SCRIPT runs on, as in `jumar record`.",
)
@report_option
@npu_options
@force_option
@fail_on_option
@json_option
@click.argument("target", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(
    *,
    mode: str,
    steps: str | None,
    frames: int | None,
    out: Path | None,
    values: Values,
    device: str,
    report: Path | None,
    npu: Npu,
    force: bool,
    fail_on: str,
    as_json: bool,
    target: Path,
    arguments: tuple[str, ...],
) -> int:
    """Name the first operator that makes NaN or Inf of finite values, where they reach the loss or a parameter.

    TARGET is a recording, a dump of another tool, or a script, which is recorded first with ARGS. Masks of -Inf,
    values that are never read and steps that a loss scaler skips do no harm and are reported apart. The exit code
    is 1 when an overflow does harm.

    Example: jumar overflow --steps 0:3 train.py
    """
    from jumar.comparison.overflow import OverflowOptions, find_overflow
    from jumar.show import progress
    from jumar.show.compare.overflow import frames_text, overflow_text

    options = OverflowOptions(
        mode=cast("Mode", mode), steps=parse_steps(steps), **({} if frames is None else {"num_frames": frames})
    )
    with contextlib.ExitStack() as stack:
        folder = target
        if _is_script(target):
            folder = out if out is not None else Path(stack.enter_context(tempfile.TemporaryDirectory())) / "recording"
            _record(target, arguments, folder, options.mode, values, npu.plan_for(device), steps, force=force)
        elif arguments or out is not None:
            raise UsageError(f"{target} is no script, so ARGS and -o have no meaning. Leave them out.")
        with progress() as bars:
            task = bars.add_task("Look", total=None)
            found = find_overflow(
                folder, options=options, on_progress=lambda done, total: bars.update(task, completed=done, total=total)
            )
        if folder not in (target, out):
            found = dataclasses.replace(found, path=str(target))  # the recording is gone when this ends
        if report is not None:
            from jumar.recording.foreign.recognise import opened
            from jumar.show.compare.overflow_page import overflow_page

            write_page(report, overflow_page(found, opened(folder)), force=force)
    if as_json:
        print_answer(found)
    else:
        click.echo(overflow_text(found))
        if frames is not None:
            click.echo(f"\n{frames_text(found.frames)}")
    return exit_code(found.findings, fail_on)


def _record(
    script: Path,
    arguments: tuple[str, ...],
    out: Path,
    mode: Mode,
    values: Values,
    plan: DevicePlan,
    steps: str | None,
    *,
    force: bool,
) -> None:
    """Run the script under the observer. What it prints goes to stderr: stdout is the answer's."""
    from jumar.capture.plans.claims import claim
    from jumar.capture.plans.plan import RecordPlan
    from jumar.capture.process.program import parse_program
    from jumar.capture.process.script import check_entries, run_program
    from jumar.comparison.overflow.options import check_exclusive, check_mode

    check_mode(mode, plan.soc if plan.kind == "npu" else "")
    check_exclusive(mode, values)
    program = parse_program([str(script), *arguments])
    check_entries(program)
    chosen = parse_steps(steps)
    recording = RecordPlan(out=str(out), values=values, steps=chosen, force=force, command=(str(script), *arguments))
    from jumar.capture.frameworks.choice import framework_of

    if framework_of(program) == "tensorflow":
        from jumar.cli.commands.run import record_tensorflow_script

        tell(f"jumar: recording {program.title} under TensorFlow", err=True)
        stop_after = chosen[1] if chosen is not None else None
        with contextlib.redirect_stdout(sys.stderr):
            end = record_tensorflow_script(program, plan=recording, stop_after=stop_after, soc=plan.soc or None)
        _tell_raised(program, end)
        return
    if framework_of(program) == "mindspore":
        from jumar.cli.commands.run import rounds, run_mindspore_script

        tell(f"jumar: recording {program.title} under MindSpore", err=True)
        stop_after = chosen[1] if chosen is not None else None
        with contextlib.redirect_stdout(sys.stderr):
            end = run_mindspore_script(program, plan=recording, stop_after=stop_after, emulates=rounds(plan))
        _tell_raised(program, end)
        return
    claim()
    from jumar.device import activate

    os.environ.update(plan.to_environment())
    active = activate(plan)
    tell(f"jumar: recording {program.title} on {active.description}", err=True)
    with _device_mode(mode, active.description), contextlib.redirect_stdout(sys.stderr):
        end = run_program(program, plan=recording, stop_after=chosen[1] if chosen is not None else None)
    _tell_raised(program, end)


def _tell_raised(program: Program, end: RunEnd) -> None:
    if end.status == "raised":
        tell(f"jumar: {program.title} raised an error; what it did until then is looked at.", err=True)


@contextlib.contextmanager
def _device_mode(mode: Mode, device: str) -> Iterator[None]:
    """Hold the emulated device's overflow detection. A script that dumps at the same time then gets an error."""
    if device != "npu (emulated)":
        yield
        return
    from jumar.npu.numerics import overflow

    before = overflow.mode()
    overflow.set_mode(mode)
    try:
        yield
    finally:
        overflow.set_mode(before)
