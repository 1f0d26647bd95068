"""`jumar record`: a script under the observer, a recording out."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

import click

from jumar.cli.main import EXIT_FINE, EXIT_INTERRUPTED, EXIT_USAGE
from jumar.cli.options import Npu, force_option, npu_options, parse_steps
from jumar.cli.run import SCRIPT_SETTINGS
from jumar.recording import Level, Values

if TYPE_CHECKING:
    from jumar.device import DevicePlan
    from jumar.recording import RunEnd


@click.command(context_settings=SCRIPT_SETTINGS)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Folder for the recording."
)
@click.option(
    "--device",
    type=click.Choice(["npu", "cuda", "cpu"]),
    default="npu",
    show_default=True,
    help="Device to bring up: npu is emulated without torch_npu; cuda has CPU kernels stand in without a GPU; "
    "cpu brings up none.",
)
@npu_options
@click.option(
    "--level",
    "levels",
    default="module,op",
    show_default=True,
    metavar="LEVELS",
    help="What becomes a row: calls of modules, of operators, or both.",
)
@click.option(
    "--values",
    type=click.Choice(get_args(Values)),
    default="stats",
    show_default=True,
    help="What to keep of each tensor besides its shape: statistics, all of it (large), or nothing.",
)
@click.option(
    "--steps",
    metavar="START:END",
    help="Steps to record, from 0, END left out; the script ends after them.  [default: all]",
)
@click.option("--go-on", is_flag=True, help="Let the script go on after the last of --steps.")
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
        jumar compare reference npu
    """
    from jumar.capture.autoload import claim
    from jumar.capture.plan import RecordPlan
    from jumar.capture.script import read_script

    chosen = parse_steps(steps)
    plan = RecordPlan(
        out=str(out),
        levels=cast(tuple[Level, ...], tuple(name.strip() for name in levels.split(","))),  # the plan checks them
        values=values,
        steps=chosen,
        force=force,
        command=(str(script), *arguments),
    )
    read_script(script)
    claim()
    from jumar.capture import run_script
    from jumar.device import activate

    device_plan = _device_plan(device, npu)
    os.environ.update(device_plan.to_environment())
    active = activate(device_plan)
    click.echo(f"jumar: recording {script} on {active.description} into {out}", err=True)
    stop_after = chosen[1] if chosen is not None and not go_on else None
    end = run_script(script, arguments, plan=plan, stop_after=stop_after, on_step=lambda step: _show_step(step, chosen))
    _say_what_there_is(out, script, end)
    return _exit_code(end)


def _device_plan(device: str, npu: Npu) -> DevicePlan:
    import torch

    if device == "npu":
        return npu.plan()
    if device == "cuda":
        return npu.plan("cuda" if torch.cuda.is_available() else "cuda-stand-in")
    return npu.plan("cpu")


def _show_step(step: int, chosen: tuple[int, int] | None) -> None:
    """Show progress on a terminal; the script's own output stays as it is."""
    if sys.stderr.isatty():
        of = f" of {chosen[1]}" if chosen is not None else ""
        click.echo(f"jumar: step {step + 1}{of} recorded", err=True)


def _say_what_there_is(out: Path, script: Path, end: RunEnd) -> None:
    from jumar.recording import Recording

    recording = Recording.open(out)
    how = {
        "raised": f"{script} raised {end.error.strip().splitlines()[-1] if end.error else 'an error'}",
        "exited": f"{script} exited with code {end.exit_code}",
        "interrupted": "stopped with Ctrl-C",
        "stopped": f"ended {script} after {end.num_steps} steps",
    }.get(end.status, f"{script} finished")
    num_rows = sum(recording.num_rows(step, rank) for rank in recording.ranks for step in recording.steps(rank))
    num_steps = len({step for rank in recording.ranks for step in recording.steps(rank)})
    ranks = f" of {len(recording.ranks)} ranks" if len(recording.ranks) > 1 else ""
    size_mb = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6
    click.echo(f"jumar: {how}; recorded {num_steps} steps{ranks}, {num_rows} rows, {size_mb:.1f} MB: {out}", err=True)
    for sentence in end.not_covered:
        click.echo(f"jumar: not covered: {sentence}", err=True)
    if num_rows:
        click.echo(f"jumar: next, compare with another recording: jumar compare REFERENCE {out}", err=True)
    else:
        click.echo("jumar: no step was completed: nothing to compare. See docs/guide-record.md on steps.", err=True)


def _exit_code(end: RunEnd) -> int:
    if end.status == "interrupted":
        return EXIT_INTERRUPTED
    return EXIT_USAGE if end.status == "raised" or end.exit_code else EXIT_FINE
