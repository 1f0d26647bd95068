"""`jumar run`: a script as `python` would run it, with the NPU present."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from jumar.cli.options import Npu, npu_options
from jumar.errors import UsageError

SCRIPT_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Everything after SCRIPT is the script's own, whatever it looks like."""


@click.command(context_settings=SCRIPT_SETTINGS)
@npu_options
@click.option("--steps", type=click.IntRange(1), metavar="N", help="End the script after N training steps.")
@click.option(
    "--summary",
    "wants_summary",
    is_flag=True,
    help="Emulated NPU only: print memory, format conversions, compiles, host operators and an estimated step time.",
)
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(*, npu: Npu, steps: int | None, wants_summary: bool, script: Path, arguments: tuple[str, ...]) -> int:
    """Run SCRIPT as `python SCRIPT ARGS` would, with an NPU present.

    With torch_npu installed that is the real NPU, else an emulated one: `torch.device("npu")`,
    `import torch_npu` and torch.npu work, and every operator is computed on the CPU. Processes that the
    script starts see the same NPU. The exit code is the script's own.

    Example: jumar run --steps 3 train.py --epochs 1
    """
    from jumar.capture.autoload import claim
    from jumar.capture.script import read_script

    read_script(script)
    claim()
    from jumar.capture import run_script
    from jumar.device import activate

    plan = npu.plan()
    active = activate(plan)
    os.environ.update(plan.to_environment())
    if wants_summary and active.description != "npu (emulated)":
        raise UsageError(f'"--summary" needs the emulated NPU; this run has {active.description}. Leave it out.')
    with _summary(wants_summary) as on_step:
        end = run_script(script, arguments, plan=None, stop_after=steps, on_step=on_step)
    if end.status == "stopped":
        click.echo(f"jumar: stopped after {end.num_steps} steps on {active.description}.", err=True)
    return end.exit_code


@contextlib.contextmanager
def _summary(wanted: bool) -> Iterator[Callable[[int], None] | None]:
    """Give what to call after each step, and print the summary at the end, also of a script that failed."""
    if not wanted:
        yield None
        return
    from jumar.cli.run_summary import echo
    from jumar.device.emulator.summary import watch

    with watch() as watching:
        try:
            yield lambda _step: watching.end_step()
        finally:
            echo(watching.summary())
