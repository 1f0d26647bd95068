"""`Tally` counts calls that share a cause; the functions write counts and shares the same way in every rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from jumar.advise.bottlenecks.run import Call, Totals
from jumar.base.findings import Json, Location
from jumar.recording.schema import split_source

MAX_LISTED = 8
"""Module paths and source lines listed in the evidence; the evidence also gives their full number."""
MATERIAL_SHARE = 0.01
"""A pattern with less than this share of launches and of bytes is reported as information only."""


@dataclass(slots=True)
class Tally:
    """Calls that share a cause."""

    num_calls: int = 0
    num_launches: int = 0
    bytes_moved: int = 0
    """Bytes the rule holds against these calls; by default what they read and write."""
    call_bytes: int = 0
    """Bytes the calls read and write in all, for the share of the run's bytes."""
    host_us: float = 0.0
    operators: Counter[str] = field(default_factory=Counter)
    module_paths: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    phases: Counter[str] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)
    steps: set[int] = field(default_factory=set)
    places: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    """Source line, module path, operator and phase of each call."""

    def add(self, call: Call, step: int, *, bytes_moved: int | None = None) -> None:
        """Count `call` in; `bytes_moved` stands in for the call's own."""
        row = call.row
        self.num_calls += 1
        self.num_launches += call.launched
        self.bytes_moved += call.bytes_moved if bytes_moved is None else bytes_moved
        self.call_bytes += call.bytes_moved
        self.host_us += row.duration_us
        self.operators[row.name] += 1
        self.module_paths[row.module_path] += 1
        self.sources[row.source] += 1
        self.places[row.source, row.module_path, row.name, row.phase] += 1
        self.phases[row.phase] += 1
        if row.inputs:
            self.shapes["×".join(map(str, row.inputs[0].shape)) or "scalar"] += 1
        self.steps.add(step)

    def is_material(self, totals: Totals) -> bool:
        """Return whether the calls make up a noticeable share of the run's launches or bytes."""
        launches = self.num_launches / max(totals.num_launches, 1)
        return max(launches, self.call_bytes / max(totals.bytes_moved, 1)) >= MATERIAL_SHARE

    def evidence(self, totals: Totals) -> dict[str, Json]:
        """Return the numbers every rule gives."""
        paths = [path for path in self.module_paths if path]
        sources = [source for source in self.sources if source]
        evidence: dict[str, Json] = {
            "num_calls": self.num_calls,
            "calls_per_step": per_step(self.num_calls, totals),
            "bytes_per_step": per_step(self.bytes_moved, totals),
            "launches_percent": percent(self.num_launches, totals.num_launches),
            "bytes_moved_percent": percent(self.call_bytes, totals.bytes_moved),
            "num_module_paths": len(paths),
            "module_paths": list(paths[:MAX_LISTED]),
            "sources": {source: self.sources[source] for source in sources[:MAX_LISTED]},
            "shapes": dict(self.shapes.most_common(3)),
            "num_steps": len(self.steps),
        }
        if len(self.operators) > 1:
            evidence["operators"] = dict(self.operators.most_common(MAX_LISTED))
        if len(self.phases) > 1:
            evidence["phases"] = dict(self.phases)
        if totals.has_times:
            evidence["host_time_percent"] = percent(self.host_us, totals.operator_us)
        return evidence

    def where(self) -> Location:
        """Return where most of the calls are."""
        if not self.places:
            return Location()
        (source, module_path, operator, phase), _ = self.places.most_common(1)[0]
        path, line = split_source(source)
        return Location(path=path, line=line, module_path=module_path or None, operator=operator, phase=phase)

    def modules_text(self) -> str:
        """Return `in stage2.0` or `in 16 modules (stage2.0 to stage4.3)`; empty when no module is known."""
        paths = [path for path in self.module_paths if path]
        if not paths:
            return ""
        return f" in `{paths[0]}`" if len(paths) == 1 else f" in {len(paths)} modules (`{paths[0]}` to `{paths[-1]}`)"


def at_text(source: str) -> str:
    """Return ` at train.py:41`; empty when the source is not known."""
    return f" at {source}" if source else ""


def per_step(value: float, totals: Totals) -> float:
    """Return `value` over the recorded steps, to three digits after the point."""
    return round(value / max(totals.num_steps, 1), 3)


def share(part: float, whole: float) -> float:
    """Return part / whole to nine digits, 0 when there is no whole."""
    return round(part / whole, 9) if whole else 0.0


_TIMES: Mapping[float, str] = MappingProxyType({1.0: "once", 2.0: "twice"})


def rate_text(num_calls: int, totals: Totals) -> str:
    """Return `once a step`, `16 times a step`, `2.7 times a step`; below one a step `3 times in 4 steps`."""
    rate = num_calls / max(totals.num_steps, 1)
    if rate < 1:
        return f"{times_text(num_calls)} in {totals.num_steps} steps"
    return f"{times_text(rate)} a step"


def percent(part: float, whole: float) -> float:
    """Return a share as percent to three digits after the point, 0 when there is no whole."""
    return round(100 * share(part, whole), 3)


def times_text(count: float) -> str:
    """Return `once`, `twice`, `16 times`."""
    return _TIMES.get(count) or f"{number_text(count)} times"


def number_text(value: float) -> str:
    """Return a count with at most one digit after the point: `3`, `2.7`, `0.02`."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.1f}" if value >= 0.1 else f"{value:.2g}"


def percent_text(part: float) -> str:
    """Return a share as percent: `8 %`, `0.4 %`."""
    value = 100 * part
    if 0 < value < 0.1:
        return "under 0.1 %"
    return f"{value:.0f} %" if value >= 1 or value == 0 else f"{value:.1f} %"
