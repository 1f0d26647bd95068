"""`cause_of_failure`: what the doctor knows of a run that failed beyond the traceback that everybody has seen."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from jumar.advise.doctor.entries import Table, known_errors
from jumar.advise.doctor.logs.diagnosis import Incident, diagnose_logs
from jumar.advise.doctor.rules.known_error import RULE as KNOWN_ERROR
from jumar.advise.doctor.rules.unlisted_error import RULE as UNLISTED_ERROR
from jumar.base.findings import Severity

_OWN_ERROR = re.compile(r"^jumar(?:\.\w+)*\.\w*(?:Error|Exception)\b", re.MULTILINE)
"""The last line of a traceback of Jumar's own error: it says what to do by itself."""
_SOURCE_LINES = re.compile(r"^( +File \".*\n)(?: {4,}.*\n)+", re.MULTILINE)
"""Lines of a traceback that quote the script: a text in its source is no message."""
MOST_BYTES = 64 * 2**20
"""Of a log that is longer the end is left to `jumar doctor`."""


def cause_of_failure(texts: Iterable[str], *, logs: Sequence[Path] = (), table: Table | None = None) -> Incident | None:
    """Return the first error in `texts` (tracebacks of ranks) and `logs` that an entry explains or that has a code.

    None where there is only a traceback, or where the error is one of Jumar's own. Raises InputError for a wrong entry
    of the user.
    """
    said = [text for text in texts if text.strip() and not _OWN_ERROR.search(text)]
    small = [log for log in logs if log.is_file() and 0 < log.stat().st_size <= MOST_BYTES]
    if not said and not small:
        return None
    with tempfile.TemporaryDirectory(prefix="jumar-doctor-") as folder:
        files = []
        for number, text in enumerate(said):
            files.append(Path(folder) / f"output-{number}.log")
            files[-1].write_text(_SOURCE_LINES.sub(r"\1", text), "utf-8", "backslashreplace")
        diagnosis = diagnose_logs([*files, *small], table=table or known_errors())
    beyond = [incident for incident in diagnosis.incidents if _is_beyond(incident)]
    return next((incident for incident in beyond if incident.role != "consequence"), next(iter(beyond), None))


def _is_beyond(incident: Incident) -> bool:
    """Tell whether an incident says more than its traceback. A consequence does where the vendor gives it a code."""
    if incident.severity is not Severity.ERROR or incident.role == "harmless":
        return False
    has_code = bool(incident.finding.evidence.get("code"))
    if incident.finding.code == KNOWN_ERROR.code:
        return has_code or incident.role != "consequence"
    return incident.finding.code == UNLISTED_ERROR.code and has_code
