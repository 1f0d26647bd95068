"""`first_unlisted`: the first error of logs that no entry explains."""

from __future__ import annotations

from jumar.advise.doctor.logs.diagnosis import LogDiagnosis
from jumar.advise.doctor.logs.engine.hits import Hit


def first_unlisted(diagnosis: LogDiagnosis) -> Hit | None:
    """Return the first line that is an error and that no entry explains, in the order of the incidents; else None.

    Errors come before lines that only name one.
    """
    hits = [hit for incident in diagnosis.incidents for hit in incident.hits if hit.signature is None]
    return next((hit for hit in hits if not hit.is_word_only), hits[0] if hits else None)
