"""Exports in the terminal: what was written, and what the check of it found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jumar.show.pages.export.checkpoint import checkpoint_lines
from jumar.show.pages.export.onnx import onnx_lines

if TYPE_CHECKING:
    from jumar.export import CheckpointReport, OnnxReport


def print_export(report: CheckpointReport | OnnxReport) -> None:
    """Print what was written, then the findings."""
    from jumar.export import CheckpointReport
    from jumar.show import print_findings

    lines = checkpoint_lines(report) if isinstance(report, CheckpointReport) else onnx_lines(report)
    click.secho(lines[0], bold=True)
    for line in lines[1:]:
        click.echo(f"  {line}")
    if report.findings:
        print_findings(report.findings)
