"""`--sarif FILE`, for any command with findings."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.errors import OutputError
from jumar.findings import Finding

if TYPE_CHECKING:
    from jumar.report.sarif import LineOf

sarif_option = click.option(
    "--sarif",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the findings to FILE as SARIF 2.1.0, for code hosts and editors.",
)


def write_sarif(
    path: Path, findings: Iterable[Finding], root: Path | None = None, *, line_of: LineOf | None = None
) -> None:
    """Write findings of any room as SARIF, replacing an older one. Raises OutputError where something else is there."""
    from jumar.cli.rule import all_rules
    from jumar.report import json_text, write_text
    from jumar.report.sarif import sarif_document

    if path.is_file() and path.stat().st_size and b'"runs"' not in path.read_bytes():
        raise OutputError(f'"--sarif {path}" exists and is no SARIF file, so it is not replaced; give another name.')
    document = sarif_document(findings, all_rules(), root=root, line_of=line_of)
    write_text(path, json_text(document), force=True)
