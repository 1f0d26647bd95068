"""Environment and logs in, a diagnosis out. No torch is imported: a child process is asked what it can import."""

from __future__ import annotations

from jumar.doctor.examination import Examination, Skipped, examine
from jumar.doctor.host import Host
from jumar.doctor.logs import Incident, LogDiagnosis, diagnose_logs, log_files
from jumar.doctor.machine import survey

__all__ = [
    "Examination",
    "Host",
    "Incident",
    "LogDiagnosis",
    "Skipped",
    "diagnose_logs",
    "examine",
    "log_files",
    "survey",
]
