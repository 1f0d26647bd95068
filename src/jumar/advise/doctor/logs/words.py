"""Whether a line names an error: the door to `lines` for those who look for lines worth reading."""

from __future__ import annotations

import re

from jumar.advise.doctor.logs.lines.judgement import NEEDLES, judged, may_name_error
from jumar.advise.doctor.logs.lines.prefixes import peeled

__all__ = ["NEEDLES", "has_form_of_error", "may_name_error", "names_error"]

_LETTERS = re.compile(r"(?:^|[\s\[(|\":])[EFC](?:\d{3,4}\b|[ \]|:])|\bERR\b")


def names_error(line: str) -> bool:
    """Tell whether a line names an error, a failure, a signal or an exit code other than 0."""
    return judged(peeled(line)) is not None


def has_form_of_error(form: str) -> bool:
    """Tell whether a line of this form, every digit made 1, can name an error; of JSON any needle counts."""
    if "{" in form or "\r" in form:
        return may_name_error(form.lower()) or _LETTERS.search(form) is not None
    return names_error(form)
