"""`jumar doctor --bundle FILE [LOG...]`: pack a report of an error, without secrets, names and addresses."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.cli.answer import print_document

if TYPE_CHECKING:
    from jumar.advise.doctor import Examination, LogDiagnosis
    from jumar.advise.doctor.bundle import Bundle
    from jumar.show.blocks.page import Page


def tell_bundle(target: Path, logs: Sequence[str], *, entries: Sequence[Path], as_json: bool) -> int:
    """Write the archive, and print what is in it and what was masked."""
    from jumar.advise.doctor.bundle import check_target

    check_target(target)
    bundle = _bundle(target, logs, entries)
    if as_json:
        print_document(**bundle.to_json())
    else:
        from jumar.show import print_page
        from jumar.show.pages.doctor.bundle import bundle_page

        print_page(bundle_page(bundle))
    return 0


def _bundle(target: Path, logs: Sequence[str], entries: Sequence[Path]) -> Bundle:
    from jumar.advise.doctor import examine, survey
    from jumar.advise.doctor.bundle import gather, own_of, pack
    from jumar.advise.doctor.bundle.gather import found_logs, ordinary_words
    from jumar.advise.doctor.bundle.masking import Masker
    from jumar.advise.doctor.entries.store import load_entries
    from jumar.advise.doctor.logs.diagnosis import diagnose_logs
    from jumar.advise.doctor.logs.engine.folders import find_logs
    from jumar.show import progress

    notes: list[str] = []
    with progress() as bars:
        bars.add_task("Pack a report", total=None)
        host = survey()
        if logs:
            found = find_logs([Path(log) for log in logs])
            files, notes = list(found.files), list(found.notes)
        else:
            files = found_logs(host.environ, notes, folder=Path.cwd())
        table = load_entries(entries).table
        diagnosis = diagnose_logs([file.path for file in files], table=table) if files else None
        examination = examine(host)
        masker = Masker(own_of(host), ordinary=ordinary_words())
        reports = _reports(examination, diagnosis)
        return pack(target, gather(host, files, diagnosis, reports, notes), masker, notes=notes)


def _reports(examination: Examination, diagnosis: LogDiagnosis | None) -> dict[str, str]:
    from jumar.show.pages.doctor.logs import logs_page
    from jumar.show.pages.doctor.machine import environment_page

    pages = [environment_page(examination), *([logs_page(diagnosis)] if diagnosis is not None else [])]
    return {
        "report.txt": "\n".join(_text(page) for page in pages),
        "report.json": json.dumps(_document(examination, diagnosis), ensure_ascii=False, indent=1),
    }


def _document(examination: Examination, diagnosis: LogDiagnosis | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "machine": {
            "device": examination.device,
            "facts": dict(examination.facts),
            "findings": [finding.to_json() for finding in examination.findings],
            "not_checked": [gap.to_json() for gap in examination.not_checked],
        }
    }
    if diagnosis is not None:
        first = diagnosis.first
        document["logs"] = {
            "first": first.finding.to_json() if first else None,
            "findings": [finding.to_json() for finding in diagnosis.findings],
            "notes": list(diagnosis.notes),
            "files": [{"path": str(one.path), "rank": one.rank, "num_lines": one.num_lines} for one in diagnosis.files],
        }
    return document


def _text(page: Page) -> str:
    from rich.console import Console

    from jumar.show import print_page
    from jumar.show.terminal.length import whole_pages

    out = io.StringIO()
    token = whole_pages.set(True)
    try:
        print_page(page, console=Console(file=out, width=160, color_system=None, force_terminal=False))
    finally:
        whole_pages.reset(token)
    return out.getvalue()
