"""`jumar accuracy`: experiments on a run's accuracy; so far `bisect`."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from jumar.base.errors import UsageError
from jumar.cli.answer import print_answer
from jumar.cli.commands.run import SCRIPT_SETTINGS
from jumar.cli.help import more_option
from jumar.cli.main import Group
from jumar.cli.options import Npu, exit_code, fail_on_option, force_option, json_option, npu_options

if TYPE_CHECKING:
    from jumar.device import DevicePlan


@click.group(cls=Group)
def command() -> None:
    """Experiments on a run's accuracy."""


@command.command(context_settings=SCRIPT_SETTINGS)
@click.option(
    "--device",
    type=click.Choice(["npu", "cuda", "cpu"]),
    default="npu",
    show_default=True,
    help="Device of the run to examine; npu is emulated without torch_npu.",
)
@npu_options
@click.option(
    "--reference-device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    show_default=True,
    help="Device of the reference losses: cpu runs an NPU or CUDA script with the CPU's kernels.",
)
@click.option(
    "--reference", type=click.Path(path_type=Path), metavar="RECORDING", help="Take these losses from a recording."
)
@more_option(
    "--in",
    "how",
    type=click.Choice(["float32", "cpu", "float64"]),
    default="float32",
    show_default=True,
    help="How the CPU calculates the operators instead: with halves widened to float32, in their own dtypes, or in "
    "float64.",
)
@more_option(
    "--over",
    type=click.Choice(["both", "operators", "modules"]),
    default="both",
    show_default=True,
    help="What to search: operators, modules, or operators and then the modules they run in.",
)
@click.option("--ops", multiple=True, metavar="GLOB", help="Only these operators, e.g. 'aten::*mm'; may be repeated.")
@more_option("--modules", multiple=True, metavar="GLOB", help="Only these modules, e.g. 'blocks.3'; may be repeated.")
@click.option("--no-search", is_flag=True, help="Switch all of --ops and --modules at once and look no further.")
@more_option(
    "--check",
    metavar="COMMAND",
    help="Judge a run by the exit code of this command instead of by its losses; {recording} is the run's recording.",
)
@click.option("--steps", type=click.IntRange(1), default=3, show_default=True, metavar="N", help="Steps of each run.")
@more_option(
    "--max-runs", type=click.IntRange(1), default=60, show_default=True, metavar="N", help="Runs to make at most."
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("bisection"),
    show_default=True,
    help="Folder for the runs and their results; a search that was stopped continues from it.",
)
@force_option
@fail_on_option
@json_option
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def bisect(
    *,
    device: Literal["npu", "cuda", "cpu"],
    npu: Npu,
    reference_device: Literal["cpu", "cuda"],
    reference: Path | None,
    how: Literal["float32", "cpu", "float64"],
    over: Literal["both", "operators", "modules"],
    ops: tuple[str, ...],
    modules: tuple[str, ...],
    no_search: bool,
    check: str | None,
    steps: int,
    max_runs: int,
    out: Path,
    force: bool,
    fail_on: str,
    as_json: bool,
    script: Path,
    arguments: tuple[str, ...],
) -> int:
    """Find the operators of SCRIPT that open the gap between its losses here and on a reference device.

    The script, unchanged, runs again and again; each time other operators are calculated by the CPU in another
    precision, below everything that watches the run. The operators that close the gap are found by experiment, not
    by correlation.

    Example: jumar accuracy bisect --soc Ascend910A train.py --epochs 1
    """
    from jumar.comparison.bisect import Program, Question
    from jumar.comparison.bisect import bisect as find
    from jumar.show import progress

    if check is not None and reference is not None:
        raise UsageError("--check judges the runs without the losses of --reference. Leave one of the two out.")
    plan = npu.plan_for(device)
    question = Question(
        device=plan,
        reference=None if check is not None else reference or _reference(reference_device, device, npu),
        how=how,
        over=over,
        operators=ops,
        modules=modules,
        check=tuple(shlex.split(check)) if check is not None else (),
        search=not no_search,
        max_runs=max_runs,
    )
    program = Program(script=script, arguments=arguments, folder=out, num_steps=steps)
    with progress() as bars:
        task = bars.add_task("Runs", total=None)
        bisection = find(
            program,
            question,
            force=force,
            on_progress=lambda done, what: bars.update(task, completed=done, description=f"Runs, now {what}"),
        )
    if as_json:
        print_answer(bisection)
    else:
        from jumar.show.compare.bisect import summary_text

        click.echo(summary_text(bisection))
    return exit_code(bisection.findings, fail_on)


def _reference(reference: Literal["cpu", "cuda"], device: Literal["npu", "cuda", "cpu"], npu: Npu) -> DevicePlan:
    """Return a device on which the same script, unchanged, finds the device it names, with other arithmetic."""
    if reference == "cuda":
        return npu.plan_for("cuda")
    if device == "npu":
        return replace(npu.plan(), real="never", numerics="exact", unsupported="fallback")
    return npu.plan("cuda-stand-in" if device == "cuda" else "cpu")
