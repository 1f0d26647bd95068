"""A plan: how a whole graph is computed. What is chosen in subgraph tuning, and what the bank keeps for a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jumar.base.findings import Json
from jumar.tune.engines.base import Engine
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Policy, PolicyKind
from jumar.tune.plan.lowering.lowering import Lowering

KIND: PolicyKind = "Subgraph"
PROVIDER = "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A part of a graph, given to one engine."""

    nodes: Sequence[int]
    """Values that its nodes make, ascending; empty: the whole graph."""
    engine: str
    settings: Mapping[str, Json] = field(default_factory=dict)
    version: str = ""
    """Of the engine; a plan holds for this one only."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Region:
        """Rebuild a region from `to_json`."""
        return cls(
            nodes=tuple(data["nodes"]), engine=data["engine"], settings=data["settings"], version=data["version"]
        )

    def to_json(self) -> dict[str, Json]:
        """Return the region as JSON values."""
        return {
            "nodes": list(self.nodes), "engine": self.engine, "settings": dict(self.settings), "version": self.version,
        }  # fmt: skip

    def __str__(self) -> str:
        """`openvino precision=bf16`; of policies by operator who has them, `operators npu_format for 12`."""
        return " ".join([self.engine, *(_worded(name, value) for name, value in sorted(self.settings.items()))])


def _worded(name: str, value: Any) -> str:
    if not isinstance(value, Mapping):
        return f"{name}={value}"
    providers = sorted({policy["provider"] for stack in value.values() for policy in stack})
    return f"{', '.join(providers)} for {len(value)}" if providers else f"{name}: none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Regions in the order in which they run, and what holds for all of them."""

    regions: Sequence[Region]
    batch: Sequence[int] = ()
    """Sizes of the pieces into which the batch (first dimension of the variable inputs) is cut, run one after the
    other: AOE's even (4+4) and uneven (4+3) splits; empty: not cut."""
    num_threads: int | None = None
    """None: as many as PyTorch uses."""
    memory: str = "default"
    """`default`; `keep`: freed memory stays with the process (malloc's thresholds raised)."""
    streams: int = 1
    """How many pieces of the batch run at once, each with `num_threads` threads (one when that is None)."""
    layout: str = "default"
    """Of four-dimensional inputs, weights and borders: `default`, as the graph says; `channels_last`, converted when
    the function is entered and back when it is left."""
    lowering: Lowering = field(default_factory=Lowering)
    """Operators in fewer bits. It comes first: the regions are of the lowered graph."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Rebuild a plan from `to_json`."""
        return cls(
            regions=tuple(Region.from_json(region) for region in data["regions"]),
            batch=tuple(data["batch"]),
            num_threads=data["num_threads"],
            memory=data["memory"],
            streams=data.get("streams", 1),
            layout=data.get("layout", "default"),
            lowering=Lowering.from_json(data.get("lowering", {})),
        )

    def to_json(self) -> dict[str, Json]:
        """Return the plan as JSON values."""
        data: dict[str, Json] = {
            "regions": [region.to_json() for region in self.regions],
            "batch": list(self.batch),
            "num_threads": self.num_threads,
            "memory": self.memory,
            "streams": self.streams,
            "layout": self.layout,
        }
        return data | ({"lowering": self.lowering.to_json()} if self.lowering else {})

    @classmethod
    def of(cls, policy: Policy) -> Plan:
        """Return the plan that a policy of the bank holds."""
        return cls.from_json(policy.settings)

    def policy(self) -> Policy:
        """Return the plan as the bank keeps it: a policy of kind `Subgraph`."""
        return Policy(kind=KIND, provider=PROVIDER, settings=self.to_json())

    def __str__(self) -> str:
        """`openvino, batch 4+4, 1 threads`."""
        parts = [" | ".join(dict.fromkeys(map(str, self.regions)))]
        if len(self.regions) > 1:
            parts.append(f"{len(self.regions)} regions")
        if self.batch:
            parts.append(f"batch {'+'.join(map(str, self.batch))}")
        if self.streams > 1:
            parts.append(f"{self.streams} at once")
        if self.num_threads is not None:
            parts.append(f"{self.num_threads} threads")
        if self.memory != "default":
            parts.append(f"memory {self.memory}")
        if self.lowering:
            parts.append(str(self.lowering))
        if self.layout != "default":
            parts.append(f"layout {self.layout}")
        return ", ".join(parts)


def worded(policy: Policy) -> str:
    """Return a policy in words: a plan as a plan, any other as it calls itself."""
    return str(Plan.of(policy)) if policy.kind == KIND else str(policy)


@dataclass(frozen=True, slots=True)
class Absence:
    """An engine of a plan that is not here, or is here in another version."""

    engine: str
    needed: str
    """Version; empty when the plan does not say."""
    here: str
    """Version; empty when the engine is not here at all."""
    reason: str = ""
    """Why an engine that Jumar has cannot be used."""


def absences(plan: Plan, engines: Sequence[Engine], machine: Machine) -> list[Absence]:
    """Return what of a plan is not here, each engine once."""
    known = {engine.name: engine for engine in engines}
    found = [absence_of(region.engine, region.version, known.get(region.engine), machine) for region in plan.regions]
    return [one for one in dict.fromkeys(found) if one is not None]


def absence_of(name: str, needed: str, engine: Engine | None, machine: Machine) -> Absence | None:
    """Return what is wrong with an engine that is needed in a version; None when it is here."""
    reason = "" if engine is None else engine.unavailable(machine)
    here = "" if engine is None or reason else engine.version()
    return None if here and here == needed else Absence(name, needed, here, reason)
