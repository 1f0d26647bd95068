"""`jumar doctor LOG...`: the first error in the logs of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.cli.answer import print_document
from jumar.cli.options import exit_code

if TYPE_CHECKING:
    from jumar.advise.doctor import LogDiagnosis
    from jumar.advise.doctor.logs.ranks import RankSummary


def tell_logs(logs: Sequence[str], *, entries: Sequence[Path], as_json: bool, fail_on: str) -> int:
    """Print what the logs say; `entries` are folders with the user's own entries."""
    diagnosis = _read([Path(log) for log in logs], entries)
    if as_json:
        _print_json(diagnosis)
    else:
        from jumar.show import print_page
        from jumar.show.pages.doctor.logs import logs_page

        print_page(logs_page(diagnosis))
    return exit_code(diagnosis.findings, fail_on)


def _read(logs: Sequence[Path], entries: Sequence[Path]) -> LogDiagnosis:
    from jumar.advise.doctor import diagnose_logs
    from jumar.advise.doctor.entries.store import load_entries
    from jumar.advise.doctor.logs.engine.folders import find_logs
    from jumar.show import progress

    loaded = load_entries(entries)
    size = sum(file.size_bytes for file in find_logs(logs).files)
    with progress() as bars:
        task = bars.add_task("Read logs", total=size or None)
        diagnosis = diagnose_logs(logs, table=loaded.table, on_progress=lambda size: bars.update(task, advance=size))
    return replace(diagnosis, notes=(*diagnosis.notes, *loaded.notes))


def _print_json(diagnosis: LogDiagnosis) -> None:
    files = [
        {
            "path": str(report.path),
            "rank": report.rank,
            "num_lines": report.num_lines,
            "size_bytes": report.size_bytes,
            "first_time": report.first_time.isoformat() if report.first_time else None,
            "last_time": report.last_time.isoformat() if report.last_time else None,
        }
        for report in diagnosis.files
    ]
    first = diagnosis.first.finding.to_json() if diagnosis.first else None
    ranks = _ranks_of(diagnosis.ranks) if diagnosis.ranks is not None else None
    print_document(diagnosis.findings, first=first, files=files, ranks=ranks, notes=diagnosis.notes)


def _ranks_of(summary: RankSummary) -> dict[str, object]:
    return {
        "num_ranks": summary.num_ranks,
        "errors": [
            {
                "message": group.first.finding.message,
                "role": group.first.role,
                "first_rank": group.first.finding.where.rank,
                "ranks": list(group.ranks),
                "num_files": group.num_files,
                "num_lines": group.num_lines,
            }
            for group in summary.groups
        ],
        "silent": [
            {
                "rank": one.rank,
                "path": str(one.path),
                "last_time": one.last_time.isoformat() if one.last_time else None,
                "last_line": one.last_line,
            }
            for one in summary.silent
        ],
        "missing": list(summary.missing),
    }
