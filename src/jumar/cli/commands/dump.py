"""`jumar dump`: what is in a dump of any known format, and the same in another format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from jumar.cli.main import Group
from jumar.cli.options import json_only_option

force = click.option("--force", is_flag=True, help="Replace files that are there.")
operator_option = click.option(
    "--operator",
    default="",
    metavar="PATTERN",
    help="Only these calls: aten::neg, aten::neg/2 (the second one), or a pattern over names, paths and keys.",
)
source = click.argument("source", type=click.Path(path_type=Path))


@click.group(cls=Group)
def command() -> None:
    """List, read and convert dumps: recordings, HDF5, msprobe, TroubleShooter, .npy, checkpoints.

    Example: jumar dump to-npy --operator "aten::neg/2" -o folder model_npu.h5
    """


@command.command("list")
@operator_option
@json_only_option
@source
def list_(*, operator: str, as_json: bool, source: Path) -> int:
    """Print the calls in SOURCE, one a line: step, rank, name, shapes, ranges."""
    from jumar.base.text import counted
    from jumar.recording.foreign import contents_of
    from jumar.recording.foreign.contents import line
    from jumar.show import json_text

    found = contents_of(source, operator)
    if as_json:
        click.echo(json_text(found.to_json()), nl=False)
        return 0
    tensors = "whole tensors" if found.has_tensors else "statistics"
    parts = f"{counted(len(found.steps), 'step')}, {counted(len(found.ranks), 'rank')}"
    click.echo(f"{found.path}: {found.format}, {counted(len(found.calls), 'call')} in {parts}, {tensors}")
    for warning in found.warnings:
        click.echo(f"  {warning}", err=True)
    for row in found.calls:
        click.echo(line(row))
    return 0


def _converter(name: str, what: str, noun: str, default: str) -> Callable[..., Any]:
    """Make the command that writes one format; `noun` is what is counted, `default` the ending of its output."""

    @command.command(name, help=f"Write SOURCE as {what}.")
    @click.option(
        "-o",
        "--out",
        type=click.Path(path_type=Path),
        metavar="PATH",
        help=f"File or folder to write.  [default: SOURCE{default}]",
    )
    @operator_option
    @force
    @source
    def convert(*, out: Path | None, operator: str, force: bool, source: Path) -> int:
        from jumar.base.text import counted
        from jumar.recording import foreign as interchange

        target = out if out is not None else source.with_name(f"{source.stem}{default}")
        write = getattr(interchange, name.replace("-", "_"))
        number = write(source, target, operator=operator, force=force)
        click.echo(f"Wrote {counted(number, noun)} to {target}.")
        return 0

    return convert


_converter("to-hdf5", "HDF5 of torch.utils.dumper, /operator/number/input/…", "call", ".h5")
_converter("to-npy", ".npy files named as msaccucmp.py names them", "file", "-npy")
_converter("to-text", "text, one number a line, as numpy.savetxt does", "file", "-text")
_converter("to-msprobe", "a folder of msprobe: step0/rank0/dump.json", "record", "-msprobe")
