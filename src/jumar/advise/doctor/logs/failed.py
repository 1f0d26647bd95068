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
_HARMLESS = frozenset({"consequence", "harmless"})
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
            files[-1].write_text(text, "utf-8", "backslashreplace")
        diagnosis = diagnose_logs([*files, *small], table=table or known_errors())
    return next(filter(_is_beyond, diagnosis.incidents), None)


def _is_beyond(incident: Incident) -> bool:
    """Tell whether an incident says more than its traceback."""
    if incident.severity is not Severity.ERROR or incident.role in _HARMLESS:
        return False
    code = incident.finding.code
    return code == KNOWN_ERROR.code or (code == UNLISTED_ERROR.code and bool(incident.finding.evidence.get("code")))
