"""What an artefact says of itself: `manifest.json`, the first member of the zip file.

manifest.json     this; checksums of all other members
graph.json        the graph (`Graph.to_json`)
weights.bin       the weights and the first values of the state, one behind the other, each at a multiple of 64 bytes
site/…            what the engines left: compiled code and their own forms of the weights
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jumar.base.errors import InputError
from jumar.base.findings import Json
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.plan import Plan

SCHEMA_VERSION = 3
"""Rises when an old reader would misread a new file."""
MANIFEST, GRAPH, WEIGHTS, SITE = "manifest.json", "graph.json", "weights.bin", "site/"
ALIGNMENT = 64
"""Of each weight, in bytes: a cache line, and the widest vector."""


class ArtefactError(InputError):
    """An artefact is cut short, damaged, of a newer schema, or made for another machine or another engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPlace:
    """Where a weight is in `weights.bin`, and how it is laid out."""

    place: int
    """Among the graph's inputs."""
    offset: int
    num_bytes: int
    dtype: str
    shape: Sequence[int]
    stride: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Everything but the graph, the weights and the engines' files."""

    name: str
    key: str
    """The graph's."""
    plan: Plan
    machine: Machine
    jumar: str
    """Version that wrote it."""
    created: str
    """UTC, ISO 8601."""
    gain: Gain | None
    """How much faster the plan was measured, as the bank has it."""
    in_nesting: Json
    out_nesting: Json
    places: Sequence[int | None]
    """As `Captured` has them: how a call's arguments and results are nested around the graph's."""
    state: Mapping[int, str]
    """As `Captured` has it: variable inputs that the model keeps itself. Their first values are with the weights."""
    weights: Sequence[WeightPlace]
    checksums: Mapping[str, str]
    """Of every other member, by name, as `jumar.tune.artefact.members` takes them."""
    instructions: Sequence[str] = ()
    """Those of the processor on which it was made (`jumar.base.native.instructions`); its code may use them. Processors
    of one name may differ in them: a virtual machine names its processor as it likes."""
    open_for: str = ""
    """What was tuned, as the command named it, when the search was cut short: the same command replaces the file. Empty
    for one that came to its end."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Manifest:
        """Rebuild a manifest. Raises ArtefactError for a newer schema, KeyError, TypeError or ValueError for none."""
        schema = data["schema"]
        if schema != SCHEMA_VERSION:
            raise ArtefactError(
                f"it has schema {schema} and this Jumar reads {SCHEMA_VERSION}. Freeze it again, with this Jumar."
            )
        names = ("name", "key", "jumar", "created", "in_nesting", "out_nesting", "places")
        return cls(
            plan=Plan.from_json(data["plan"]),
            machine=Machine.from_json(data["machine"]),
            gain=None if data["gain"] is None else Gain.from_json(data["gain"]),
            state={int(place): str(name) for place, name in data["state"].items()},
            weights=[WeightPlace(**one) for one in data["weights"]],
            checksums=dict(data["checksums"]),
            instructions=tuple(map(str, data.get("instructions", ()))),
            open_for=str(data.get("open_for", "")),
            **{name: data[name] for name in names},
        )

    def to_json(self) -> dict[str, Json]:
        """Return the manifest as JSON values."""
        weights: list[Json] = [asdict(one) for one in self.weights]
        return {
            "schema": SCHEMA_VERSION,
            "name": self.name,
            "key": self.key,
            "plan": self.plan.to_json(),
            "machine": asdict(self.machine),
            "jumar": self.jumar,
            "created": self.created,
            "gain": None if self.gain is None else self.gain.to_json(),
            "in_nesting": self.in_nesting,
            "out_nesting": self.out_nesting,
            "places": list(self.places),
            "state": {str(place): name for place, name in self.state.items()},
            "weights": weights,
            "checksums": dict(self.checksums),
            "instructions": list(self.instructions),
            "open_for": self.open_for,
        }

    def misfit(self, machine: Machine) -> str:
        """Return in which respect `machine` is another than the artefact was made for; empty when in none.

        The number of threads is no such respect: the plan sets its own.
        """
        for field in ("device", "model", "capability", "torch"):
            made, here = getattr(self.machine, field), getattr(machine, field)
            if made != here:
                what = {"model": "processor", "capability": "vector instructions", "torch": "PyTorch"}.get(field, field)
                return f"it was made for {what} {made}, and here is {here}"
        return ""

    def lacking(self, here: Collection[str]) -> str:
        """Return which of its instructions are not among those `here`; empty for none, or where none are known."""
        missing = sorted(set(self.instructions) - set(here)) if here else []
        return f"it was made for a processor with {', '.join(missing[:4])}, which this one has not" if missing else ""
