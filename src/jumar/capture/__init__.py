"""Runs a program under the observer and writes a recording.

The names below are loaded when first used; importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import loader

if TYPE_CHECKING:
    from jumar.capture.frameworks import HuggingFaceRecorder, LightningRecorder, record
    from jumar.capture.plans.plan import RecordPlan
    from jumar.capture.process.launcher import LaunchResult, launch
    from jumar.capture.process.script import run_script

__all__ = ["HuggingFaceRecorder", "LaunchResult", "LightningRecorder", "RecordPlan", "launch", "record", "run_script"]

_HOME = {
    "HuggingFaceRecorder": "jumar.capture.frameworks",
    "LaunchResult": "jumar.capture.process.launcher",
    "LightningRecorder": "jumar.capture.frameworks",
    "RecordPlan": "jumar.capture.plans.plan",
    "launch": "jumar.capture.process.launcher",
    "record": "jumar.capture.frameworks",
    "run_script": "jumar.capture.process.script",
}

__getattr__ = loader(__name__, __all__, _HOME)
