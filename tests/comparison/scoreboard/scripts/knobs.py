"""`Run`: one execution of a script with some of its numbers changed; `Script`: a fault or a healthy pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

import jumar

Cause = Literal["line", "optimizer", "data", "parameters", "random", "ranks", "agree"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One execution. A script asks `run.of(name, default)` for each number that a fault changes."""

    folder: Path
    values: str = "sketch"
    seed: int = 0
    device: str = "cpu"
    numerics: str = "strict"
    threads: int = 1
    mkldnn: bool = True
    knobs: dict[str, Any] = field(default_factory=dict)

    def of(self, name: str, default: Any) -> Any:
        """Return the value of a knob: the default, or what the fault makes of it."""
        return self.knobs.get(name, default)

    def to(self, *items: Any) -> Any:
        """Return tensors or modules on the run's device."""
        moved = tuple(item.to(self.device) for item in items)
        return moved[0] if len(moved) == 1 else moved

    @contextmanager
    def recorded(self, model: nn.Module) -> Iterator[None]:
        """Record what the script does inside."""
        with jumar.record(str(self.folder), model=model, values=self.values):  # type: ignore[arg-type]  # a word
            yield

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        """Set threads, kernels and the emulated device; put everything back."""
        threads, mkldnn = torch.get_num_threads(), torch.backends.mkldnn.enabled
        torch.set_num_threads(self.threads)
        torch._C._set_mkldnn_enabled(self.mkldnn)  # the flags may be frozen by other tests
        with ExitStack() as stack:
            stack.callback(torch._C._set_mkldnn_enabled, mkldnn)
            stack.callback(torch.set_num_threads, threads)
            npu = self.device == "npu"
            stack.enter_context(jumar.emulate(numerics=self.numerics, unsupported="fallback") if npu else nullcontext())
            yield


Program = Callable[[Run], None]


@dataclass(frozen=True, kw_only=True)
class Script:
    """A program run twice. A fault changes knobs of the target; a healthy pair only what may not matter."""

    name: str
    program: Program
    cause: Cause = "line"
    marks: tuple[str, ...] = ()
    """Marks `# @mark` of the program's lines of which one must be named."""
    argument: str = ""
    """The setting or argument that must be named with it; empty for any."""
    rank: int | None = None
    """The rank that must be named; None for any."""
    both: dict[str, Any] = field(default_factory=dict)
    """Knobs of both runs."""
    knobs: dict[str, Any] = field(default_factory=dict)
    """Knobs of the target."""
    target: dict[str, Any] = field(default_factory=dict)
    """Fields of the target's `Run`."""
    held_out: bool = False
    """Not looked at while the comparison was worked on."""

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong."""
        return self.cause == "agree"
