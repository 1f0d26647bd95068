"""`Draft`: what a user rule does at one place."""

from __future__ import annotations

from dataclasses import dataclass, field

from jumar.convert.model.edits import Replacement
from jumar.convert.model.spans import Span


@dataclass(slots=True)
class Draft:
    """The replacements of one place, or the reason why there are none."""

    span: Span
    code: str
    """The place as it is written, for messages."""
    notes_only: bool = False
    replacements: list[Replacement] = field(default_factory=list)
    requires: list[str] = field(default_factory=list)
    risky: str = ""
    """Why the edit is unsafe although its rule is safe."""
    reason: str = ""
    """Why the place is left although its rule means it."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change and nothing to say."""
        return not (self.replacements or self.reason or self.notes_only)

    def refused(self, reason: str) -> Draft:
        """Leave the place as a whole."""
        self.reason = self.reason or reason
        return self
