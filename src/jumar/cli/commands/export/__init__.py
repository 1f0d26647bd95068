"""`jumar export`: weights of a checkpoint, or a model as ONNX, in a form that loads anywhere."""

from __future__ import annotations

import click

from jumar.cli.commands.export import checkpoint, mapping, onnx
from jumar.cli.main import Group


@click.group(cls=Group)
def command() -> None:
    """Export weights or a model for use elsewhere.

    Example: jumar export checkpoint last.pth model.pt
    """


for _one in (checkpoint.checkpoint, mapping.mapping, onnx.onnx):
    command.add_command(_one)
