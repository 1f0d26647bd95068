"""`jumar port`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jumar.cli.main import EXIT_USAGE
from jumar.cli.options import exit_code, fail_on_option, force_option, json_option, soc_option


@click.command()
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
@click.option("--torch-version", default="2.13", show_default=True, help="Version of torch_npu to assess for.")
@click.option(
    "--reference",
    type=click.Choice(["auto", "cuda", "cuda-stand-in"]),
    default="auto",
    show_default=True,
    help="Device of the reference run: auto takes CUDA where it is, else CPU kernels standing in for it.",
)
@click.option(
    "--values",
    type=click.Choice(["stats", "tensors"]),
    default="stats",
    show_default=True,
    help="What to keep of each tensor: statistics, or all of it (large).",
)
@click.option("--seed", default=0, show_default=True, help="Start of the random numbers of a script that seeds none.")
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

    Everything after -- is passed to SCRIPT:

        jumar port train.py -- --epochs 1
    """
    from jumar.port import PortOptions, port
    from jumar.show import print_page, progress
    from jumar.show.port import write_port

    options = PortOptions(**given)
    with progress() as bars:
        result = port(options, bars)
        task = bars.add_task("Write the page", total=1)
        page = write_port(result)
        bars.update(task, completed=1)
    failed = result.failed
    if failed is not None:
        click.echo(failed.error(), err=True)
    if as_json:
        click.echo(result.layout.findings.read_text("utf-8"))
    else:
        print_page(page)
        click.echo(f"\nOpen {result.layout.page}")
    if failed is not None and failed is result.reference:
        return EXIT_USAGE
    return exit_code(result.findings, fail_on)
