"""`diagnose_logs`: the errors of one job's logs as incidents in the order of time; look at the first one first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from jumar.advise.doctor.entries import Role, Table, known_errors
from jumar.advise.doctor.logs.engine.folders import find_logs
from jumar.advise.doctor.logs.engine.hits import FileReport, Hit
from jumar.advise.doctor.logs.engine.scan import OnProgress
from jumar.advise.doctor.logs.engine.spread import scan_files
from jumar.advise.doctor.logs.incidents import finding_of, groups_of, lead_of
from jumar.advise.doctor.logs.ranks import RankSummary, in_order, order_note, skew_of, summary_of
from jumar.advise.doctor.logs.restarts import restart_notes
from jumar.base.findings import Finding, Severity
from jumar.base.lazy import Shown
from jumar.base.text import listing

_QUOTED_CHARACTERS = 160
_MOST_NAMED = 5
"""Files that a note names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Errors printed together, named after the most telling one."""

    lead: Hit
    hits: tuple[Hit, ...]
    """All of them, in the order of their lines."""
    finding: Finding

    @property
    def time(self) -> datetime | None:
        """When it began, as printed; None in a file without times."""
        return self.hits[0].time

    @property
    def is_unlisted(self) -> bool:
        """Its lines only name an error, by words or by the level of a plog."""
        return all(hit.is_word_only or hit.module for hit in self.hits)

    @property
    def severity(self) -> Severity:
        """The lead's severity."""
        return self.lead.severity

    @property
    def role(self) -> Role:
        """The lead's role."""
        return self.lead.role


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDiagnosis(Shown):
    """The files that were read, and their errors."""

    files: tuple[FileReport, ...]
    incidents: tuple[Incident, ...]
    """The first error first, then in the order of time; files without times come after the others."""
    notes: tuple[str, ...]
    ranks: RankSummary | None = None
    """The same by error and rank; None for the logs of a few ranks."""

    @property
    def first(self) -> Incident | None:
        """The first error, or None when there is none (there may be warnings)."""
        return next((item for item in self.incidents if item.severity is Severity.ERROR), None)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One finding an incident, in their order."""
        return tuple(item.finding for item in self.incidents)


def diagnose_logs(
    paths: Sequence[str | Path], *, table: Table | None = None, on_progress: OnProgress | None = None
) -> LogDiagnosis:
    """Read logs, or all logs of folders, as those of one job. Raises InputError for what cannot be read."""
    table = table or known_errors()
    found = find_logs(paths)
    return diagnosis_of(scan_files(found.files, table, on_progress), found.notes)


def diagnosis_of(reports: Sequence[FileReport], notes: Sequence[str] = ()) -> LogDiagnosis:
    """Return the diagnosis of logs that were read; `notes` come before those that it makes."""
    files = tuple(reports)
    incidents = [incident for report in files for incident in incidents_of(report)]
    unlisted = [item for item in incidents if item.is_unlisted]
    if _explained(incidents):  # an error is known: lines that only name one add nothing, and are no incidents
        incidents = [item for item in incidents if not item.is_unlisted]
        left = _left_note(unlisted)
    else:
        left = []
    skew = skew_of(files)
    ordered = tuple(in_order(incidents, skew.shifts))
    said = (
        *notes,
        *_notes(files, incidents),
        *skew.notes,
        *order_note(ordered, skew.shifts),
        *restart_notes(files),
        *left,
    )
    return LogDiagnosis(files=files, incidents=ordered, notes=said, ranks=summary_of(files, ordered))


def _left_note(unlisted: Sequence[Incident]) -> list[str]:
    hits = [hit for item in unlisted for hit in item.hits if hit.severity is Severity.ERROR]
    if not hits:
        return []
    first, number = hits[0], sum(hit.count for hit in hits)
    what = "1 more line names an error" if number == 1 else f"{number} more lines name errors"
    return [
        f"{what} that Jumar does not know, the first at {first.path}:{first.line}: {first.text[:_QUOTED_CHARACTERS]}"
    ]


def incidents_of(report: FileReport) -> Iterator[Incident]:
    """Yield the incidents of one file, in the order of their lines."""
    for hits in groups_of(report):
        lead = lead_of(hits)
        yield Incident(lead=lead, hits=tuple(hits), finding=finding_of(lead, hits))


def _explained(incidents: Sequence[Incident]) -> bool:
    """Tell whether something is known to have gone wrong that is not a mere consequence or wrapper."""
    return any(
        item.severity is Severity.ERROR and not item.is_unlisted and item.role in ("cause", "symptom")
        for item in incidents
    )


def _notes(files: Sequence[FileReport], incidents: Sequence[Incident]) -> list[str]:
    empty = [str(report.path) for report in files if report.size_bytes == 0 and not report.notes]
    notes = [f"{listing(empty, _MOST_NAMED)} {'is' if len(empty) == 1 else 'are'} empty."] if empty else []
    notes += [note for report in files for note in report.notes]
    untimed = {item.lead.path for item in incidents if item.time is None}
    if untimed and len(files) > 1:
        names = listing(sorted(path.name for path in untimed), _MOST_NAMED)
        notes.append(f"No times are printed in {names}: errors there cannot be put in order with those of other files.")
    if len({item.lead.path for item in incidents if item.time is not None}) > 1:
        notes.append("Times are compared as printed: the clocks of the nodes must agree.")
    return notes
