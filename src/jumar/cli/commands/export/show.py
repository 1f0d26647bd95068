"""What the commands of `jumar export` share: `--force`, and how a report is printed."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import click

from jumar.cli.answer import print_document

if TYPE_CHECKING:
    from jumar.export import CheckpointReport, OnnxReport

FORCE = click.option("--force", is_flag=True, help="Replace an existing file.")


def show(report: CheckpointReport | OnnxReport, as_json: bool) -> None:
    """Print a report: its fields as JSON, or lines for a person."""
    if as_json:
        print_document(**{item.name: getattr(report, item.name) for item in fields(report)})
    else:
        from jumar.show.pages.export import print_export

        print_export(report)
