"""`jumar export map`: names of one program's parameters for another's."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import click

from jumar.cli.answer import print_document
from jumar.cli.commands.export.show import FORCE
from jumar.cli.main import Command
from jumar.cli.options import json_option


@click.command("map", cls=Command)
@click.argument("source", metavar="A")
@click.argument("target", metavar="B")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the map, to be edited.")
@click.option("--map", "edited", type=click.Path(path_type=Path), metavar="FILE", help="Take this edited map.")
@click.option(
    "--write",
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="Write A's values under B's names, in the format of the suffix.",
)
@FORCE
@json_option
def mapping(
    *,
    source: str,
    target: str,
    output: Path | None,
    edited: Path | None,
    write: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Map the names of A's tensors to B's, by names, structure, shapes and values.

    A gives values, B says which names and shapes are wanted. Each is a checkpoint of any format, or MODULE:CALLABLE,
    which returns a model or (model, example inputs). Where both are factories with inputs, both models run and their
    outputs are compared. Exit code 1: the outputs differ, or a target has no source.

    Example: jumar export map old.pth models:build -o names.toml
    """
    from jumar.base.errors import UsageError
    from jumar.export.mapping.run import MapOptions, map_names

    if output is not None and edited is not None:
        raise UsageError("-o writes a new map and --map takes an edited one; leave one of them out.")
    report = map_names(source, target, MapOptions(output=output, edited=edited, write=write, force=force))
    if as_json:
        print_document(**{item.name: getattr(report, item.name) for item in fields(report)})
    else:
        from jumar.show.pages.export.mapping import print_map

        print_map(report)
    differs = bool(report.verification.differences) and not report.verification.agrees
    return int(differs or bool(report.missing))
