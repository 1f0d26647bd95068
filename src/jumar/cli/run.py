"""`jumar run`: a script as `python` would run it, with the NPU present."""

from __future__ import annotations

import os
from pathlib import Path

import click

from jumar.cli.options import Npu, npu_options

SCRIPT_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Everything after SCRIPT is the script's own, whatever it looks like."""


@click.command(context_settings=SCRIPT_SETTINGS)
@npu_options
@click.option("--steps", type=click.IntRange(1), metavar="N", help="End the script after N training steps.")
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(*, npu: Npu, steps: int | None, script: Path, arguments: tuple[str, ...]) -> int:
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
    end = run_script(script, arguments, plan=None, stop_after=steps)
    if end.status == "stopped":
        click.echo(f"jumar: stopped after {end.num_steps} steps on {active.description}.", err=True)
    return end.exit_code
