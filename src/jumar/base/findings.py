"""`Finding`: the one form in which every analysis reports what it saw.

A leftover CUDA call, an unsupported operator, a divergent tensor, a needless copy: all end in the
same frozen value, so that the renderers (terminal, HTML, JSON) and the exit code know only this.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Safety = Literal["safe", "unsafe", "display-only"]


class Severity(enum.IntEnum):
    """How much a finding matters; ordered, so that `--fail-on warning` is a comparison."""

    INFO = 10
    """Worth knowing; nothing to do."""
    ADVICE = 20
    """Works, and could be better (faster, smaller, simpler)."""
    WARNING = 30
    """May give another result or fail in some situation."""
    ERROR = 40
    """Does not work, or gives a wrong result."""

    @classmethod
    def parse(cls, text: str) -> Severity:
        """Return the severity called `text` (any case). Raises KeyError for an unknown name."""
        return cls[text.upper()]

    @property
    def label(self) -> str:
        """The lower-case name used in every output format."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a finding is: in a file (lines and columns from 1), in a run, or in both."""

    path: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    module_path: str | None = None
    """Dotted path of the nn.Module within the model, e.g. `layer1.0.conv1`; empty for the root."""
    operator: str | None = None
    """Aten overload, e.g. `aten::add.Tensor`."""
    phase: str | None = None
    step: int | None = None
    rank: int | None = None

    def __str__(self) -> str:
        """`train.py:41`, `layer1.0.conv1 aten::convolution`, or both; empty when nothing is known."""
        source = self.path or ""
        if source and self.line is not None:
            source += f":{self.line}"
        run = " ".join(part for part in (self.module_path, self.operator, self.phase) if part)
        if self.step is not None:
            run = f"{run} step {self.step}".strip()
        return " · ".join(part for part in (source, run) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A replacement of source text that an engine made or proposes (lines from 1, inclusive)."""

    path: str
    start_line: int
    end_line: int
    before: str
    after: str
    safety: Safety = "safe"
    """`safe` is applied by default, `unsafe` only when asked for, `display-only` never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One observation with its evidence and what to do about it.

    `code` names the rule (`jumar rule CODE` explains it), `message` is one sentence for this very
    place, `why` says why it matters, `action` what to do next; `evidence` holds the numbers.
    """

    code: str
    severity: Severity
    message: str
    where: Location = field(default_factory=Location)
    evidence: Mapping[str, Json] = field(default_factory=dict)
    why: str = ""
    action: str = ""
    edit: Edit | None = None
    confidence: Literal["certain", "likely", "possible"] = "certain"

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON values; `from_json` is its inverse."""
        data = asdict(self)
        data["severity"] = self.severity.label
        data["where"] = {key: value for key, value in data["where"].items() if value is not None}
        data["evidence"] = dict(self.evidence)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Finding:
        """Rebuild a finding from `to_json`. Raises KeyError or TypeError on foreign input."""
        fields = dict(data)
        fields["severity"] = Severity.parse(fields["severity"])
        fields["where"] = Location(**fields.get("where", {}))
        fields["edit"] = Edit(**fields["edit"]) if fields.get("edit") else None
        return cls(**fields)


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the highest severity among `findings`, or None when there are none."""
    return max((finding.severity for finding in findings), default=None)
