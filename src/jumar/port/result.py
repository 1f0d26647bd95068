"""`PortResult`: what `jumar port` found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jumar.base.findings import Finding
from jumar.base.lazy import Shown
from jumar.port.layout import Layout
from jumar.port.options import PortOptions
from jumar.port.rules import NOT_ON_THE_DEVICE
from jumar.port.runs import Run

if TYPE_CHECKING:
    from jumar.advise.bottlenecks import Advice
    from jumar.comparison import Comparison
    from jumar.comparison.diagnosis import Diagnosis
    from jumar.convert import Conversion
    from jumar.convert.assess import Assessment
    from jumar.port.sources import Sources


@dataclass(slots=True, kw_only=True)
class PortResult(Shown):
    """Grows stage by stage; a stage that was not reached leaves its part None."""

    options: PortOptions
    layout: Layout
    source: Assessment | None = None
    """Support of the APIs that the sources call, before the conversion."""
    sources: Sources | None = None
    """The project's files that the script imports, converted."""
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
    def conversion(self) -> Conversion | None:
        """The conversion of these files."""
        return self.sources.conversion if self.sources is not None else None

    @property
    def ran(self) -> bool:
        """Both runs came to their end."""
        return self.target is not None and self.failed is None

    @property
    def unused(self) -> Finding | None:
        """The finding that the model was not computed on the NPU, if it was not."""
        return next((finding for finding in self.findings if finding.code == NOT_ON_THE_DEVICE.code), None)

    @property
    def runs(self) -> list[Run]:
        """The runs that were made, the reference first."""
        return [run for run in (self.reference, self.target) if run is not None]

    @property
    def failed(self) -> Run | None:
        """The run that did not come to its end, if there is one; none follows it."""
        return next((run for run in self.runs if run.failed), None)
