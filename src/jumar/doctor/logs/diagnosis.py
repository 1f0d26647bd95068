"""Logs of one job in, its errors as incidents in time order out; the first is the one to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from jumar.doctor.logs.scan import FileReport, Hit, OnProgress, scan_file
from jumar.doctor.logs.signatures import Role, Table, known_errors
from jumar.doctor.logs.words import action_of, cause_of, message_of, rule_of, source_of
from jumar.errors import InputError
from jumar.findings import Finding, Json, Location, Severity

_NEAR_LINES = 40
"""Errors of one file so close together belong to one incident …"""
_NEAR = timedelta(seconds=60)
"""… unless their times are farther apart."""
LOG_NAMES = ("*.log", "*.log.gz", "*.txt", "*.out", "*.err", "stdout", "stderr", "plog-*")
"""Files of a folder that are read."""


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
    def severity(self) -> Severity:
        """The lead's severity."""
        return self.lead.severity

    @property
    def role(self) -> Role:
        """What the most telling line tells."""
        return self.lead.role


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDiagnosis:
    """What the logs of a job say."""

    files: tuple[FileReport, ...]
    incidents: tuple[Incident, ...]
    """The first error first, then in the order of time; files without times come after the others."""
    notes: tuple[str, ...]

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
    files = tuple(scan_file(path, table, on_progress) for path in log_files(paths))
    incidents = [incident for report in files for incident in _incidents(report)]
    return LogDiagnosis(files=files, incidents=tuple(_in_order(incidents)), notes=tuple(_notes(files, incidents)))


def log_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return the files to read, folders searched. Raises InputError when a path is missing or a folder has no log."""
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            found = {file for name in LOG_NAMES for file in path.rglob(name) if file.is_file()}
            if not found:
                raise InputError(f"{path} must hold logs ({', '.join(LOG_NAMES)}), and has none; name the log file.")
            files += sorted(found)
        elif path.exists():
            files.append(path)
        else:
            raise InputError(f"{path} does not exist; name a log file, or a folder of logs such as ~/ascend/log.")
    return list(dict.fromkeys(files))


def _incidents(report: FileReport) -> list[Incident]:
    groups: list[list[Hit]] = []
    for hit in _without_explained(report.hits):
        if groups and _belongs(groups[-1][-1], hit):
            groups[-1].append(hit)
        else:
            groups.append([hit])
    return [_incident(group) for group in groups]


def _without_explained(hits: Sequence[Hit]) -> list[Hit]:
    """Leave out plain plog lines where the file has an error that the table explains."""
    explained = any(hit.signature is not None and hit.severity is Severity.ERROR for hit in hits)
    return [hit for hit in hits if not (explained and hit.module)]


def _belongs(before: Hit, hit: Hit) -> bool:
    if hit.line - before.line > _NEAR_LINES or before.severity is not hit.severity:
        return False
    if hit.rank is not None and before.rank is not None and hit.rank != before.rank:
        return False
    return before.time is None or hit.time is None or abs(hit.time - before.time) <= _NEAR


def _incident(hits: list[Hit]) -> Incident:
    lead = min(hits, key=lambda hit: (hit.rank_of_telling, hit.line))
    return Incident(lead=lead, hits=tuple(hits), finding=_finding(lead, hits))


def _finding(lead: Hit, hits: Sequence[Hit]) -> Finding:
    rule = rule_of(lead)
    rank = next((hit.rank for hit in (lead, *hits) if hit.rank is not None), None)
    traceback = lead.traceback or next((hit.traceback for hit in hits if hit.traceback), None)
    where = Location(path=str(lead.path), line=lead.line, rank=rank)
    evidence: dict[str, Json] = {
        "text": lead.text,
        "count": lead.count,
        "time": lead.time.isoformat(" ", "seconds") if lead.time else None,
        "role": lead.role,
        "code": lead.code or None,
        "also": [message_of(hit) for hit in hits if hit is not lead],
        "raised_at": f"{traceback.file}:{traceback.line}" if traceback and traceback.file else None,
        "source": source_of(lead, hits),
    }
    return rule.finding(
        message_of(lead),
        where=where,
        severity=lead.severity,
        evidence={name: value for name, value in evidence.items() if value not in (None, [])},
        why=cause_of(lead, hits),
        action=action_of(lead, hits),
        confidence="certain" if lead.role == "cause" else "likely",
    )


def _in_order(incidents: Sequence[Incident]) -> list[Incident]:
    """Order by time. A mere consequence gives way, as the first, to an error of a file that has no times."""
    timed = sorted((item for item in incidents if item.time is not None), key=_time_key)
    untimed = [item for item in incidents if item.time is None]
    errors = [item for item in timed if item.severity is Severity.ERROR]
    if not errors or errors[0].role == "consequence":
        told = [item for item in untimed if item.severity is Severity.ERROR and item.role != "consequence"]
        return told + timed + [item for item in untimed if item not in told]
    return timed + untimed


def _time_key(incident: Incident) -> datetime:
    assert incident.time is not None
    return incident.time


def _notes(files: Sequence[FileReport], incidents: Sequence[Incident]) -> list[str]:
    notes = [f"{report.path} is empty." for report in files if report.size_bytes == 0]
    untimed = {item.lead.path for item in incidents if item.time is None}
    if untimed and len(files) > 1:
        names = ", ".join(sorted(path.name for path in untimed))
        notes.append(f"No times are printed in {names}: errors there cannot be put in order with those of other files.")
    if len({item.lead.path for item in incidents if item.time is not None}) > 1:
        notes.append("Times are compared as printed: the clocks of the nodes must agree.")
    return notes
