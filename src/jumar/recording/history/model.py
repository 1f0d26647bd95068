"""What the history of a run holds of one step: `HistoryStep`, and `Place`, which names four numbers of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

Role = Literal["input", "loss", "scale", "clipped", "gradient", "state", "parameter", "buffer", "copy"]
"""In the order of a training step. `input`: of an outermost module's call; `scale`: of GradScaler; `clipped`: the norm
that `clip_grad_norm_` found; `gradient`: as the optimizer reads it; `state`: of the optimizer; `buffer`: also a
parameter that no optimizer trains; `copy`: of a module that was never called (the averaged weights of an EMA)."""
ROLES: tuple[Role, ...] = get_args(Role)

NUM_SAMPLES = 3
NUM_VALUES = 1 + NUM_SAMPLES
"""Numbers of a place: the L2 norm, and elements at fixed positions of the memory."""

Floats = npt.NDArray[np.float32]
Settings = Mapping[str, Mapping[str, Any]]
"""By optimizer and name of the setting: a list with one item a parameter group."""


@dataclass(frozen=True, slots=True)
class Place:
    """What four numbers of a step are of."""

    role: Role
    owner: str = ""
    """Of `gradient` and `state` the optimizer, of `copy` the class of the module; else empty."""
    name: str = ""
    """Full name of the parameter or buffer; number of the call and name of the input; number of the loss."""
    slot: str = ""
    """Of `state`: its name in the optimizer, `exp_avg`."""
    shape: tuple[int, ...] = ()
    order: str = ""
    """Strides, where the memory is not in the order of the elements: samples of other orders are other elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStep:
    """The numbers of one step."""

    step: int
    settings: Settings = field(default_factory=dict)
    """All that hold in this step."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """How often each optimizer stepped."""
    rng: Mapping[str, str] = field(default_factory=dict)
    """Digest of each generator's state when the step began."""
    places: tuple[Place, ...] = ()
    values: Floats = field(default_factory=lambda: np.empty((0, NUM_VALUES), np.float32))
    """Shape (number of places, NUM_VALUES): norm, then the sampled elements."""

    @property
    def losses(self) -> list[float]:
        """The losses of the step, one for each call of `backward`."""
        return [float(row[1]) for place, row in zip(self.places, self.values, strict=True) if place.role == "loss"]

    def brief(self) -> HistoryStep:
        """Return the step without the numbers of single parameters: inputs, losses, and the norm of all gradients of
        each optimizer."""
        kept = [row for row, place in enumerate(self.places) if place.role in {"input", "loss", "scale", "clipped"}]
        squares: dict[str, float] = {}
        for place, (norm, *_) in zip(self.places, self.values.tolist(), strict=True):
            if place.role == "gradient":
                squares[place.owner] = squares.get(place.owner, 0.0) + norm * norm
        totals = np.full((len(squares), NUM_VALUES), np.nan, np.float32)
        totals[:, 0] = np.sqrt(list(squares.values()))
        places = (*(self.places[row] for row in kept), *(Place("gradient", owner) for owner in squares))
        return replace(self, places=places, values=np.concatenate((self.values[kept], totals)))
