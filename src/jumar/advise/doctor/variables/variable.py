"""`Variable`: one environment variable as data, and the check of a value."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

_WHOLE = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """What an environment variable does, which values it takes, and who says so."""

    name: str
    area: str
    meaning: str
    source: str
    values: tuple[str, ...] = ()
    """The values that it takes; empty where it takes others."""
    any_case: bool = False
    low: float | None = None
    high: float | None = None
    """Least and greatest number, both included."""
    multiple_of: int = 1
    decimal: bool = False
    """Whether a number may have decimals."""
    form: str = ""
    """A regular expression for the whole value."""
    form_text: str = ""
    """The form in words: `a path`, `names with commas`."""
    default: str = ""
    since: str = ""
    until: str = ""
    """The last version that reads it; empty where today's does."""
    instead: str = ""
    """What takes its place."""
    judged_by: str = ""
    """Code of the rule that judges its value; this table then only explains it."""

    @property
    def values_text(self) -> str:
        """The values that it takes, in words."""
        if self.values:
            return ", ".join(self.values)
        if self.low is not None or self.high is not None:
            kind = "a number" if self.decimal else "a whole number"
            low = f" from {self.low:g}" if self.low is not None else ""
            high = f" to {self.high:.10g}" if self.high is not None else ""
            step = f", a multiple of {self.multiple_of}" if self.multiple_of > 1 else ""
            return f"{kind}{low}{high}{step}"
        return self.form_text

    @property
    def versions_text(self) -> str:
        """Since and until which version it is read; empty where that is not known."""
        parts = [f"since {self.since}" if self.since else "", f"until {self.until}" if self.until else ""]
        return ", ".join(part for part in parts if part)

    def complaint(self, value: str) -> str:
        """Return what is wrong with a value, as the rest of a sentence: `must be …`; empty for a good one."""
        text = value.strip()
        if not text:
            return ""
        if self.values:
            known = {one.lower() for one in self.values} if self.any_case else set(self.values)
            return "" if (text.lower() if self.any_case else text) in known else f"must be one of {self.values_text}"
        if self.low is not None or self.high is not None:
            return "" if self._is_in_range(text) else f"must be {self.values_text}"
        if self.form and not re.fullmatch(self.form, text):
            return f"must be {self.form_text}"
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return what is known, without what is not."""
        return {name: value for name, value in asdict(self).items() if value not in ("", (), None, False)}

    def _is_in_range(self, text: str) -> bool:
        if not (_DECIMAL if self.decimal else _WHOLE).fullmatch(text):
            return False
        number = float(text)
        above = self.low is None or number >= self.low
        below = self.high is None or number <= self.high
        return above and below and (self.multiple_of == 1 or number % self.multiple_of == 0)
