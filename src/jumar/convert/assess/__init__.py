"""Compares what a script or a recorded run needs with what an Ascend NPU supports. Imports no torch.

The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.convert.assess.emulator import EmulatorCoverage, GroupCoverage, Refused, assess_emulator
    from jumar.convert.assess.model import Assessment, Row, Status
    from jumar.convert.assess.recordings import assess_recording
    from jumar.convert.assess.sources import assess_source

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

_HOMES = {
    "Assessment": "jumar.convert.assess.model",
    "EmulatorCoverage": "jumar.convert.assess.emulator",
    "GroupCoverage": "jumar.convert.assess.emulator",
    "Refused": "jumar.convert.assess.emulator",
    "Row": "jumar.convert.assess.model",
    "Status": "jumar.convert.assess.model",
    "assess_emulator": "jumar.convert.assess.emulator",
    "assess_recording": "jumar.convert.assess.recordings",
    "assess_source": "jumar.convert.assess.sources",
}

__getattr__ = loader(__name__, __all__, _HOMES)
__dir__ = directory(__name__, __all__)
