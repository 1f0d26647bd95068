"""Runs a program under the observer and writes a recording.

The names below are loaded when first used; importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.capture.frameworks.profile import HuggingFaceProfiler, LightningProfiler
    from jumar.capture.frameworks.record import HuggingFaceRecorder, LightningRecorder, record
    from jumar.capture.plans.plan import RecordPlan
    from jumar.capture.process.launcher import LaunchResult, launch
    from jumar.capture.process.script import run_script

__all__ = ["HuggingFaceProfiler", "HuggingFaceRecorder", "LaunchResult", "LightningProfiler", "LightningRecorder"]
__all__ += ["RecordPlan", "launch", "record", "run_script"]

_HOME = {
    "HuggingFaceProfiler": "jumar.capture.frameworks.profile",
    "HuggingFaceRecorder": "jumar.capture.frameworks.record",
    "LaunchResult": "jumar.capture.process.launcher",
    "LightningProfiler": "jumar.capture.frameworks.profile",
    "LightningRecorder": "jumar.capture.frameworks.record",
    "RecordPlan": "jumar.capture.plans.plan",
    "launch": "jumar.capture.process.launcher",
    "record": "jumar.capture.frameworks.record",
    "run_script": "jumar.capture.process.script",
}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
