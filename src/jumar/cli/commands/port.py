"""`jumar port`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jumar.capture.process.program import is_starter
from jumar.cli.help import more_option
from jumar.cli.main import EXIT_USAGE, Command
from jumar.cli.options import (
    chosen_release,
    exit_code,
    fail_on_option,
    force_option,
    json_option,
    soc_option,
    torch_version_option,
)
from jumar.show.terminal.tell import tell


class PortCommand(Command):
    """Leaves to a launcher, a module or a shell what follows it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of the command line, those from a launcher on as they are."""
        at = self._start(args)
        return super().parse_args(ctx, args if at is None else [*args[:at], "--", *args[at:]])

    def _start(self, args: list[str]) -> int | None:
        """Return where a program begins that takes all words after it; None for a script."""
        taking = {name: one for one in self.params if isinstance(one, click.Option) for name in one.opts}
        at = 0
        while at < len(args) and args[at] in taking:
            at += 1 if taking[args[at]].is_flag else 2
            continue
        words = args[at:]
        if not words or words[0] == "--" or (words[0].startswith("-") and words[0] != "-m"):
            return None
        return at if words[0] == "-m" or is_starter(words[0]) else None


@click.command(cls=PortCommand)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("jumar-port"),
    show_default=True,
    help="Folder for the result.",
)
@click.option("--steps", default=3, show_default=True, metavar="N", help="Training steps to run on each device.")
@soc_option
@torch_version_option
@more_option(
    "--reference",
    type=click.Choice(["auto", "cuda", "cuda-stand-in"]),
    default="auto",
    show_default=True,
    help="Device of the reference run: auto takes CUDA where it is, else CPU kernels standing in for it.",
)
@more_option(
    "--values",
    type=click.Choice(["stats", "tensors"]),
    default="stats",
    show_default=True,
    help="What to keep of each tensor: statistics, or all of it (large).",
)
@more_option("--seed", default=0, show_default=True, help="Start of the random numbers of a script that seeds none.")
@force_option
@json_option
@fail_on_option
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, metavar="[-- ARGS]...")
def command(*, as_json: bool, fail_on: str, **given: Any) -> int:
    """Take a CUDA training script to the NPU, with proof.

    Converts SCRIPT and the modules beside it, runs the original on the reference device and the
    converted one on the NPU (the emulated one where torch_npu is not installed), compares the two
    runs operator by operator, and writes a folder: index.html (open it first), findings.json,
    changes.patch (for git apply) and the converted sources. Your own files are never changed.

    Everything after -- is passed to SCRIPT. A module, a launcher or a shell script may stand in its place; all that
    follows it is its own:

        \b
        jumar port train.py -- --epochs 1
        jumar port -m package.train --epochs 1
        jumar port torchrun --nproc-per-node 2 train.py --epochs 1
    """
    from jumar.capture.frameworks.choice import must_be_torch
    from jumar.capture.process.program import parse_program
    from jumar.cli.commands.doctor.failed import tell_failed
    from jumar.port import PortOptions, port
    from jumar.show import print_page, progress
    from jumar.show.port import write_port

    program = parse_program([str(given.pop("script")), *given.pop("arguments")])
    must_be_torch(program, "jumar port")
    given["torch_version"] = chosen_release(given["torch_version"])
    options = PortOptions.of(program, **given)
    with progress() as bars:
        result = port(options, bars)
        task = bars.add_task("Write the page", total=1)
        page = write_port(result)
        bars.update(task, completed=1)
    failed = result.failed
    if failed is not None:
        click.echo(failed.error(), err=True)
        tell_failed(failed.error(), logs=[failed.log], is_emulated=failed.side == "npu")
    if as_json:
        click.echo(result.layout.findings.read_text("utf-8"))
    else:
        print_page(page)
        tell(f"\nOpen {result.layout.page}")
    if failed is not None and failed is result.reference:
        return EXIT_USAGE
    return exit_code(result.findings, fail_on)
