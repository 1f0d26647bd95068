"""Environment and logs in, a diagnosis out. No torch is imported: a child process is asked what it can import."""

from __future__ import annotations

from jumar.advise.doctor.logs import Incident, LogDiagnosis, diagnose_logs, log_files
from jumar.advise.doctor.machine import Examination, Host, examine, survey

__all__ = ["Examination", "Host", "Incident", "LogDiagnosis", "diagnose_logs", "examine", "log_files", "survey"]
