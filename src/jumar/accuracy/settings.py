"""How two runs were made, and whether a difference there could explain a difference of the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jumar.accuracy.environment import argument_settings, version_settings
from jumar.findings import Severity
from jumar.recording import RunInfo

DECISIVE = (
    "seed",
    "dtype",
    "autocast",
    "deterministic",
    "tf32",
    "hf32",
    "matmul_precision",
    "batch_size",
    "batch-size",
    "world_size",
    "learning",
    "--lr",
    "dropout",
    "decay",
    "precision",
    "epsilon",
    "--amp",
    "--bf16",
    "--fp16",
    "accum",
)
"""Words in a setting's name that mean: with other values the runs may well compute other numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDiff:
    """A setting that differs; None where a run does not have it."""

    name: str
    reference: Any
    target: Any
    severity: Severity

    def __str__(self) -> str:
        return f"{self.name} {self.reference!r} against {self.target!r}"


def setting_differences(reference: RunInfo, target: RunInfo) -> list[SettingDiff]:
    """Return what differs in how two recordings were made, decisive settings first."""
    mine, theirs = dict(_flat("", reference.settings)), dict(_flat("", target.settings))
    for settings, info in ((mine, reference), (theirs, target)):
        settings.update({"num_ranks": info.num_ranks, **argument_settings(info), **version_settings(info)})
    found = [
        SettingDiff(name=name, reference=mine.get(name), target=theirs.get(name), severity=_severity(name))
        for name in sorted({*mine, *theirs})
        if not _equal(mine.get(name), theirs.get(name))
    ]
    return sorted(found, key=lambda diff: -diff.severity)


def _flat(prefix: str, settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value


def _severity(name: str) -> Severity:
    lower = name.lower()
    return Severity.WARNING if any(word in lower for word in DECISIVE) or name == "num_ranks" else Severity.INFO


def _equal(first: Any, second: Any) -> bool:
    """Compare values; on a command line `1e-3` equals `0.001`."""
    try:
        return first == second or float(first) == float(second)
    except (TypeError, ValueError):
        return False
