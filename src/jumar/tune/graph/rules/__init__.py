"""Rules of captured graphs, one file each; each judges what was `Observed` while a model was captured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What was observed of a model, or of its captured graph. Every field but the name may be left out."""

    name: str
    drawing: Sequence[str] = ()
    """Operators that draw random numbers."""
    difference: float = 0.0
    """Of two runs on the same inputs, relative to the greatest value; infinite for other shapes or NaNs."""
    between: str = ""
    """Which two runs differ, in words; empty: none do."""
    outputs: Sequence[torch.Tensor | None] = ()
    """What the graph returned for the sample inputs."""
    break_reason: str = ""
    """Why the model is no single graph, as PyTorch says it; empty for a single graph."""
    num_pieces: int = 0
    changing: Sequence[str] = ()
    """Dimensions that change: `x: dimension 0`."""
    gear: str = ""
    """The sizes that the model was captured for."""
