"""Logs: known errors, tracebacks, and which came first."""

from __future__ import annotations

from jumar.advise.doctor.logs.diagnosis import Incident, LogDiagnosis, diagnose_logs
from jumar.advise.doctor.logs.engine.folders import log_files

__all__ = ["Incident", "LogDiagnosis", "diagnose_logs", "log_files"]
