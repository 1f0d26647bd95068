"""What `jumar port` found, before it is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jumar.findings import Finding, Severity, worst
from jumar.port.layout import Layout
from jumar.port.options import PortOptions
from jumar.port.runs import Run

if TYPE_CHECKING:
    from jumar.accuracy import Comparison
    from jumar.assess import Assessment
    from jumar.migrate import Conversion
    from jumar.performance import Advice


@dataclass(slots=True, kw_only=True)
class PortResult:
    """Grows stage by stage; a stage that was not reached leaves its part None."""

    options: PortOptions
    layout: Layout
    source: Assessment | None = None
    """Support of the converted sources' APIs."""
    conversion: Conversion | None = None
    reference: Run | None = None
    target: Run | None = None
    executed: Assessment | None = None
    """Support of the operators that the NPU run executed."""
    comparison: Comparison | None = None
    advice: Advice | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def ran(self) -> bool:
        """Both runs came to their end."""
        return all(run is not None and not run.failed for run in (self.reference, self.target))

    @property
    def worst(self) -> Severity | None:
        """The highest severity among the findings."""
        return worst(self.findings)
