"""`jumar repro`: one recorded operator as a folder of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jumar.base.text import SIZE_HELP, parse_size, size_text
from jumar.cli.complete import recordings
from jumar.cli.main import Command
from jumar.cli.options import force_option, json_only_option


@click.command(cls=Command)
@click.argument("recording", type=click.Path(path_type=Path), shell_complete=recordings)
@click.argument("operator")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), default=Path("repro"), show_default=True, help="Folder to write."
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="RECORDING",
    help="Recording of the reference, for OPERATOR first: the first divergence from it.",
)
@click.option(
    "--context",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Number of earlier operators to take in: those that made its inputs, then those before them.",
)
@click.option(
    "--max-size",
    default="1MB",
    show_default=True,
    metavar="SIZE",
    help="Greatest size of the tensors; larger ones are sliced as long as the error stays. " + SIZE_HELP,
)
@force_option
@json_only_option
def command(*, max_size: str, as_json: bool, **given: Any) -> int:
    """Write a folder that shows one OPERATOR of RECORDING: a script, its tensors, a pytest and a README.

    OPERATOR is a row key, a module path and an operator ("blocks.3.fc1 aten::addmm"), a glob (of several calls the
    one with the greatest error is taken), or first: the first operator with an error of its own, with --against the
    first divergence. The script needs torch and numpy only; it runs on the CPU, on CUDA, on an NPU and, with Jumar
    installed, on the emulated one, and prints each device's error against float64.

    Example: jumar repro npu-recording first --against gpu-recording -o case
    """
    from jumar.comparison.model.words import number
    from jumar.comparison.repro import write_repro
    from jumar.show import json_text

    written = write_repro(max_bytes=parse_size(max_size, "--max-size"), **given)
    if as_json:
        click.echo(json_text(written.to_json()), nl=False)
        return 0
    click.echo(f"{written.title}{f': {written.chosen}' if written.chosen else ''}.")
    click.echo(f"  recorded error {number(written.error)}; rounding explains {number(written.tolerance)}")
    click.echo(f"  {written.path}: repro.py, test_repro.py, README.md, tensors.npz ({size_text(written.size_bytes)})")
    for note in written.notes:
        click.echo(f"  note: {note}")
    click.echo(f"  next: python {written.path / 'repro.py'}")
    return 0
