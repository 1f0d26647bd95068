"""`diagnose_logs`: the errors of one job's logs as incidents in the order of time; look at the first one first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from jumar.advise.doctor.entries import Role, Signature, Table, known_errors
from jumar.advise.doctor.logs.engine.folders import find_logs, log_files
from jumar.advise.doctor.logs.engine.hits import FileReport, Hit
from jumar.advise.doctor.logs.scan import OnProgress
from jumar.advise.doctor.logs.spread import scan_files
from jumar.advise.doctor.rules.error_word import RULE as ERROR_WORD
from jumar.advise.doctor.rules.known_error import RULE as KNOWN_ERROR
from jumar.advise.doctor.rules.python_traceback import RULE as PYTHON_TRACEBACK
from jumar.advise.doctor.rules.unlisted_error import RULE as UNLISTED_ERROR
from jumar.base.errors import InputError
from jumar.base.findings import Finding, Json, Location, Severity
from jumar.base.lazy import Shown
from jumar.base.rules import Rule
from jumar.tfadapter.options.memory import MemoryOptions, memory_options

_NEAR_LINES = 40
"""Errors of one file so close together belong to one incident …"""
_NEAR = timedelta(seconds=60)
"""… unless their times are farther apart."""
_ELSEWHERE = "It is usually a consequence: look for an earlier error in the logs of the other ranks."
_MESSAGE_CHARACTERS = 160


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
        """The lead's role."""
        return self.lead.role


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDiagnosis(Shown):
    """The files that were read, and their errors."""

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
    found = find_logs(paths)
    files = tuple(scan_files(found.files, table, on_progress))
    if any(hit.severity is Severity.ERROR for report in files for hit in report.hits):
        for report in files:  # an error is known: lines that only name one add nothing
            report.hits = [hit for hit in report.hits if not hit.is_word_only]
    incidents = [incident for report in files for incident in _incidents(report)]
    return LogDiagnosis(files=files, incidents=tuple(_in_order(incidents)), notes=(*found.notes, *_notes(files, incidents)))


def _incidents(report: FileReport) -> list[Incident]:
    groups: list[list[Hit]] = []
    for hit in _without_explained(report.hits):
        if groups and _belongs(groups[-1][-1], hit):
            groups[-1].append(hit)
        else:
            groups.append([hit])
    return [_incident(group) for group in groups]


def _without_explained(hits: Sequence[Hit]) -> list[Hit]:
    """Leave out unexplained plog lines where the table explains an error of the same file."""
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
    rule = _rule_of(lead)
    rank = next((hit.rank for hit in (lead, *hits) if hit.rank is not None), None)
    traceback = lead.traceback or next((hit.traceback for hit in hits if hit.traceback), None)
    where = Location(path=str(lead.path), line=lead.line, rank=rank)
    evidence: dict[str, Json] = {
        "text": lead.text,
        "count": lead.count,
        "time": lead.time.isoformat(" ", "seconds") if lead.time else None,
        "role": lead.role,
        "code": lead.code or None,
        "also": [_message_of(hit) for hit in hits if hit is not lead],
        "raised_at": f"{traceback.file}:{traceback.line}" if traceback and traceback.file else None,
        "source": _source_of(lead, hits),
    }
    memory = _memory_of(lead, hits)
    if isinstance(memory, MemoryOptions):
        evidence |= {"graph_memory_max_size": memory.graph, "variable_memory_max_size": memory.variable}
    return rule.finding(
        _message_of(lead),
        where=where,
        severity=lead.severity,
        evidence={name: value for name, value in evidence.items() if value not in (None, [])},
        why=_cause_of(lead, hits),
        action=_action_of(lead, hits),
        confidence="certain" if lead.role == "cause" else "likely",
    )


def _in_order(incidents: Sequence[Incident]) -> list[Incident]:
    """Order by time. Where the first error is only a consequence, errors of files without times come first."""
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
    notes = [f"{report.path} is empty." for report in files if report.size_bytes == 0 and not report.notes]
    notes += [note for report in files for note in report.notes]
    untimed = {item.lead.path for item in incidents if item.time is None}
    if untimed and len(files) > 1:
        names = ", ".join(sorted(path.name for path in untimed))
        notes.append(f"No times are printed in {names}: errors there cannot be put in order with those of other files.")
    if len({item.lead.path for item in incidents if item.time is not None}) > 1:
        notes.append("Times are compared as printed: the clocks of the nodes must agree.")
    return notes


def _rule_of(hit: Hit) -> Rule:
    """Return the rule that reports this error."""
    if hit.signature is not None:
        return KNOWN_ERROR
    if hit.is_word_only:
        return ERROR_WORD
    return UNLISTED_ERROR if hit.code or hit.module else PYTHON_TRACEBACK


def _message_of(hit: Hit) -> str:
    """Return one sentence: `A collective waited too long for another rank (EI0002).`"""
    if hit.signature is not None:
        return f"{hit.signature.title}{f' ({hit.code})' if hit.code else ''}."
    if hit.traceback is not None:
        return _exception(hit)
    if hit.is_word_only:
        return f"A line names an error that Jumar does not know: {hit.text[:_MESSAGE_CHARACTERS]}"
    if hit.code:
        return f"The vendor's error {hit.code}, which Jumar's table does not have."
    return f"The module {hit.module} of the vendor's software reports an error."


def _cause_of(lead: Hit, hits: Sequence[Hit]) -> str:
    """Return the probable cause: that of the lead, or else of the best-known error near it."""
    signature = _signature(lead, hits)
    cause = signature.cause if signature else ""
    return f"{cause} {_ELSEWHERE}" if lead.role == "consequence" else cause


def _action_of(lead: Hit, hits: Sequence[Hit]) -> str:
    """Return what to do next."""
    signature, memory = _signature(lead, hits), _memory_of(lead, hits)
    if isinstance(memory, str):
        return memory
    if memory is not None:
        return (
            f"Set graph_memory_max_size to {memory.graph} and variable_memory_max_size to {memory.variable}. "
            f"sess.run: {'; '.join(memory.session_code.splitlines())}. Estimator: {memory.estimator_code}"
        )
    if lead.signature is None and lead.traceback is not None and lead.traceback.file:
        place = f"Look at {lead.traceback.file}:{lead.traceback.line}"
        place += f" (in {lead.traceback.function})." if lead.traceback.function.strip("<>").isidentifier() else "."
        return f"{place} {signature.action}" if signature else place
    if signature is not None:
        return signature.action
    return "Search the vendor's error reference for the code." if lead.code else "Read the lines around it."


def _memory_of(lead: Hit, hits: Sequence[Hit]) -> MemoryOptions | str | None:
    """Return the memory options that a line of the error asks for, None where none does."""
    return next((found for hit in (lead, *hits) if (found := memory_options(hit.text)) is not None), None)


def _source_of(lead: Hit, hits: Sequence[Hit]) -> str | None:
    """Return the document that explains it, or None."""
    signature = _signature(lead, hits)
    return signature.source if signature else None


def _signature(lead: Hit, hits: Sequence[Hit]) -> Signature | None:
    if lead.signature is not None:
        return lead.signature
    known = sorted(hits, key=lambda hit: (hit.rank_of_telling, hit.line))
    return next((hit.signature for hit in known if hit.signature is not None), None)


def _exception(hit: Hit) -> str:
    assert hit.traceback is not None
    text = f"{hit.traceback.exception}: {hit.traceback.message}" if hit.traceback.message else hit.traceback.exception
    short = text if len(text) <= _MESSAGE_CHARACTERS else text[: _MESSAGE_CHARACTERS - 1] + "…"
    return short if short.endswith((".", "…")) else f"{short}."
