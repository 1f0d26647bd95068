"""What a script or a recorded run needs, held against what an Ascend NPU supports. Imports no torch."""

from __future__ import annotations

from jumar.assess.emulator import EmulatorCoverage, GroupCoverage, Refused, assess_emulator
from jumar.assess.model import Assessment, Row, Status
from jumar.assess.recordings import assess_recording
from jumar.assess.sources import assess_source

__all__ = [
    "Assessment",
    "EmulatorCoverage",
    "GroupCoverage",
    "Refused",
    "Row",
    "Status",
    "assess_emulator",
    "assess_recording",
    "assess_source",
]
