"""`PortResult`: what `jumar port` found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jumar.base.findings import Finding
from jumar.port.layout import Layout
from jumar.port.options import PortOptions
from jumar.port.runs import Run

if TYPE_CHECKING:
    from jumar.advise.bottlenecks import Advice
    from jumar.comparison import Comparison
    from jumar.comparison.diagnosis import Diagnosis
    from jumar.convert import Conversion
    from jumar.convert.assess import Assessment


@dataclass(slots=True, kw_only=True)
class PortResult:
    """Grows stage by stage; a stage that was not reached leaves its part None."""

    options: PortOptions
    layout: Layout
    source: Assessment | None = None
    """Support of the APIs that the sources call, before the conversion."""
    conversion: Conversion | None = None
    proof: list[Finding] | None = None
    """What the static proof of the conversion found: nothing, if the conversion is sound."""
    reference: Run | None = None
    target: Run | None = None
    executed: Assessment | None = None
    """Support of the operators that the NPU run executed."""
    comparison: Comparison | None = None
    diagnosis: Diagnosis | None = None
    """The decision flow over the comparison."""
    advice: Advice | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def ran(self) -> bool:
        """Both runs came to their end."""
        return self.target is not None and self.failed is None

    @property
    def runs(self) -> list[Run]:
        """The runs that were made, the reference first."""
        return [run for run in (self.reference, self.target) if run is not None]

    @property
    def failed(self) -> Run | None:
        """The run that did not come to its end, if there is one; none follows it."""
        return next((run for run in self.runs if run.failed), None)
