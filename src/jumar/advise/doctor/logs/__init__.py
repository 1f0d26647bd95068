"""Logs: known errors, tracebacks, and which came first."""

from __future__ import annotations

from jumar.advise.doctor.logs.diagnosis import Incident, LogDiagnosis, diagnose_logs, log_files
from jumar.advise.doctor.logs.signatures import Signature, Table, known_errors, parse_table

__all__ = [
    "Incident",
    "LogDiagnosis",
    "Signature",
    "Table",
    "diagnose_logs",
    "known_errors",
    "log_files",
    "parse_table",
]
