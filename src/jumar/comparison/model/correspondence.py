"""The types of structural differences, renamed modules, ranks and shifted steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from jumar.comparison.model.results import UnmatchedCall

StructureKind = Literal["inserted", "removed", "replaced", "moved", "inserted modules", "removed modules", "repeated"]
"""`replaced`: other operators of (perhaps) the same calculation, compared where their results leave them;
`moved`: the same call at another place in the order; `repeated`: a module called another number of times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuralDiff:
    """Calls that the two runs do not have in common, at one place."""

    kind: StructureKind
    step: int
    rank: int
    phase: str
    module_path: str
    reference: tuple[UnmatchedCall, ...] = ()
    target: tuple[UnmatchedCall, ...] = ()
    compared: bool = False
    """Whether the result was compared all the same, where it leaves the calls."""
    num_places: int = 1
    """At how many places of the step the same operators differ in the same way; the calls are those of the first."""
    num_reference: int = 0
    """Of `repeated`: how often the reference calls the module."""
    num_target: int = 0
    explained: str = ""
    """Why none of the calls is a difference between the programs; empty when one of them is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamedModules:
    """A subtree of modules that has another name in the target; empty for the root."""

    reference: str
    target: str
    num_modules: int
    by_values: bool = False
    """Recognised among equal siblings by the values of its parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperparameterDiff:
    """A setting of the optimizer that differs; None where a run does not have it."""

    step: int
    rank: int
    optimizer: str
    name: str
    """`class` for another optimizer."""
    reference: Any
    target: Any
    source: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.reference!r} against {self.target!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDiff:
    """A layer that was made with another setting, or is of another class."""

    path: str
    """In the reference."""
    kind: str
    """Class in the reference."""
    name: str
    """Of the setting in PyTorch's words; `class` for another class."""
    reference: Any
    target: Any

    def __str__(self) -> str:
        return f"{self.path or self.kind} ({self.kind}): {self.name} {self.reference!r} against {self.target!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankDiff:
    """A difference between ranks that must hold the same, or equal data on ranks that must read different data."""

    kind: Literal["gradients", "parameters", "data", "collectives"]
    """`data`: the ranks were given equal data; the others differ though they must not."""
    side: Literal["reference", "target"]
    step: int
    ranks: tuple[int, int]
    names: tuple[str, ...]
    """Parameters, tensors or collective operators concerned."""
    error: float | None = None
    """Greatest relative difference seen."""
    num_equal: int = 0
    """How many others of the kind agree between the ranks."""
    reduced: bool = True
    """Whether any collective operator that adds up over ranks was run in the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Steps or micro-steps that do not correspond one to one."""

    kind: Literal["offset", "micro-steps"]
    rank: int
    sentence: str
    offset: int = 0
    """Target's step minus reference's step."""
    counts: tuple[int, int] = (1, 1)
    """Backward passes of a step in the reference and in the target."""


ShortfallKind = Literal["calls", "inputs", "arguments", "settings", "layers", "updates", "shapes", "values", "steps"]
"""What stands against an agreement: `calls` also parameters and tensors, `updates` the number of optimizer steps,
`values` results that could not be compared, `steps` also ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """One thing that stands against an agreement."""

    kind: ShortfallKind
    sentence: str
    """Without its full stop."""


@dataclass(slots=True)
class Correspondence:
    """What aligning two recordings has shown."""

    structure: list[StructuralDiff] = field(default_factory=list)
    renamed: list[RenamedModules] = field(default_factory=list)
    hyperparameters: list[HyperparameterDiff] = field(default_factory=list)
    layers: list[LayerDiff] = field(default_factory=list)
    ranks: list[RankDiff] = field(default_factory=list)
    shifts: list[Shift] = field(default_factory=list)
    data: str = ""
    """How the data that differ are related (other order, another step's batch); empty when that is not known."""
    parameters: str = ""
    """How the parameters that differ are related (transposed, other order); empty when that is not known."""
    transposed: list[str] = field(default_factory=list)
    """Parameters that one side holds in the transposed shape."""
    generators: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Generators whose state differed when the first common step began, with both digests."""
    drawn_from: tuple[str, str] = ("", "")
    """Digests of the generator's state before the first operator that drew other random numbers."""
    ranks_only: bool = False
    """Ranks of one recording were compared with each other, and no operators."""
