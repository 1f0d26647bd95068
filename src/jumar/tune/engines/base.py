"""The interface of an engine: who can compute a graph, or a part of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from jumar.base.findings import Json
from jumar.tune.graph import Graph
from jumar.tune.model.machine import Machine

if TYPE_CHECKING:
    import torch

Settings = Mapping[str, Json]
"""All that `Engine.build` needs besides the graph and its weights."""

Precision = Literal["fp32", "bf16", "fp16", "int8"]
"""What an engine may compute in; `fp32` means: as the graph says."""

GraphFunction = Callable[..., "tuple[Any, ...]"]
"""A graph as a function of its *variable* inputs, in order; returns a tuple of its outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where an engine builds: the graph, its weights, one set of variable inputs, and room for files."""

    graph: Graph
    constants: Mapping[int, torch.Tensor]
    """The weights, by their place among the graph's inputs."""
    example: Sequence[torch.Tensor]
    """The variable inputs, in order; they must stay as they are."""
    folder: Path
    """Empty, this build's own. What `Engine.load` will need is left here; anything else may be, too."""
    num_threads: int = field(default=1)
    draws_as_eager: bool = False
    """Random numbers are drawn by PyTorch's own operators, so that results can be compared with eager's."""

    def placed(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return `tensors`, which are on the CPU, where this site's are."""
        own = next(iter([*self.example, *self.constants.values()]), None)
        return [tensor if own is None else tensor.to(own.device) for tensor in tensors]


class Engine(ABC):
    """Computes graphs. One engine is one file and one class without state.

    Contract
    - The class is made without arguments and is found by its import path in the worker process.
    - `unavailable`, `version`, `unsupported` and `settings` run in the tuner's process: they import no torch and no
      engine, measure nothing, and give the same answer for the same graph and machine.
    - `build` runs in a process that is the candidate's own. It may compile, be slow, raise anything, even crash.
    - The function takes the variable inputs and returns the outputs as PyTorch would: the same values up to
      rounding, shapes, dtypes and *strides*; inputs stay as they are (apart from the graph's `effects`); it may be
      called any number of times, also by several threads at once, and outputs of earlier calls keep their values,
      unless the settings say `"reuse": True`. Everything that it costs to come from PyTorch's tensors and go back
      happens inside.
    - Two processes that build with equal settings compute alike.
    - After `build`, `load` in another process gives the same function from `site.folder` without compiling. It takes
      what it needs of `site.constants` and `site.folder` before it returns: an artefact is closed then, weights that
      nobody asked for are never read, and the folder is removed (files that are mapped or open stay readable).

    `jumar.testing.EngineContract` is this contract as a test class; subclass it for a new engine. Another distribution
    adds its class by an entry point of the group `jumar.tuning_engines`.
    """

    name: ClassVar[str]
    """Unique among engines; part of every plan in the bank, so it never changes."""
    devices: ClassVar[frozenset[str]] = frozenset({"cpu"})
    """Where it is offered, by `Machine.device`."""
    preload: ClassVar[tuple[str, ...]] = ()
    """Modules that the worker imports once, before it forks for each candidate."""
    is_slow_to_build: ClassVar[bool] = False
    """Whether building a network takes tens of seconds rather than a few: a search tries the others first."""
    takes_steps: ClassVar[bool] = False
    """Whether it computes training steps (`Graph.gradients`); such a graph is offered to no other engine."""

    def unavailable(self, machine: Machine) -> str:
        """Return why this engine cannot work on `machine`, as one sentence; empty when it can."""
        return ""

    @abstractmethod
    def version(self) -> str:
        """Return the engine's version, from the metadata of its package: a plan holds for this one only."""

    def unsupported(self, graph: Graph) -> str:
        """Return why it cannot take `graph`, as one sentence, as far as that shows without trying; else empty."""
        return ""

    @abstractmethod
    def settings(self, graph: Graph, machine: Machine, precision: Precision = "fp32") -> Sequence[Settings]:
        """Return the settings worth a measurement, the most promising first; empty when there are none."""

    def fitted(self, settings: Settings, graph: Graph, other: Graph) -> Settings:
        """Return `settings`, made for `graph`, for `other`: the same nodes in the same order with other sizes."""
        return settings

    @abstractmethod
    def build(self, site: Site, settings: Settings) -> GraphFunction:
        """Return the graph's function."""

    @abstractmethod
    def load(self, site: Site, settings: Settings) -> GraphFunction:
        """Return the function from what `build` left in `site.folder`. `site.example` may be empty here."""
