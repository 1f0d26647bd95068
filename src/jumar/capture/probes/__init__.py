"""Probes: what is noted of each call, one file each. Importing this package imports torch."""

from __future__ import annotations

from pathlib import Path

from jumar.capture.probes.base import Probe
from jumar.capture.probes.hashes import HashProbe
from jumar.capture.probes.sketches import SketchProbe
from jumar.capture.probes.source import SourceProbe
from jumar.capture.probes.stats import StatsProbe
from jumar.capture.probes.tensors import TensorsProbe
from jumar.recording import Values

__all__ = [
    "HashProbe",
    "Probe",
    "SketchProbe",
    "SourceProbe",
    "StatsProbe",
    "TensorsProbe",
    "probes_for",
]


def probes_for(values: Values, folder: Path | None = None) -> list[Probe]:
    """Return the probes of a recording with these values, for a script in `folder`."""
    probes: list[Probe] = [SourceProbe(folder)]
    if values == "hash":
        probes.append(HashProbe())
    if values == "sketch":
        probes.append(SketchProbe())
    if values in {"stats", "sketch", "tensors"}:
        probes.append(StatsProbe())
    if values == "tensors":
        probes.append(TensorsProbe())
    return probes
