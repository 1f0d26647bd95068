"""Runs a program under the observer and writes a recording.

The names below are loaded when first used; importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.lazy import loader

if TYPE_CHECKING:
    from jumar.capture.block import record
    from jumar.capture.callbacks import HuggingFaceRecorder, LightningRecorder
    from jumar.capture.launcher import LaunchResult, launch
    from jumar.capture.plan import RecordPlan
    from jumar.capture.script import run_script

__all__ = ["HuggingFaceRecorder", "LaunchResult", "LightningRecorder", "RecordPlan", "launch", "record", "run_script"]

_HOME = {
    "HuggingFaceRecorder": "jumar.capture.callbacks",
    "LaunchResult": "jumar.capture.launcher",
    "LightningRecorder": "jumar.capture.callbacks",
    "RecordPlan": "jumar.capture.plan",
    "launch": "jumar.capture.launcher",
    "record": "jumar.capture.block",
    "run_script": "jumar.capture.script",
}

__getattr__ = loader(__name__, __all__, _HOME)
