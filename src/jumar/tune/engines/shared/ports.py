"""Inputs and outputs of an engine's session, whose memory it reads and writes without a copy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch


class Port(ABC):
    """One input or output. Small ones go through memory of their own that is named to the engine once."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, staged_bytes: int) -> None:
        self._shape, self._dtype = shape, dtype
        staged = self._empty()
        self.staged: torch.Tensor | None = staged if staged.nbytes <= staged_bytes else None

    @abstractmethod
    def bind(self, tensor: torch.Tensor) -> None:
        """Name the tensor's memory to the engine."""

    def fresh(self) -> torch.Tensor:
        """Return new memory that is bound."""
        tensor = self._empty()
        self.bind(tensor)
        return tensor

    def _empty(self) -> torch.Tensor:
        return torch.empty(self._shape, dtype=self._dtype, device="cpu")  # whatever the default device is


def run_through(
    inputs: Sequence[Port | None], outputs: Sequence[Port], run: Callable[[], None], given: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Hand `given` to the engine, `run` it, and return its outputs in memory that later calls leave alone.

    An input that is None is read by nothing.
    """
    for port, tensor in zip(inputs, given, strict=True):
        if port is None:
            continue
        if port.staged is None:
            port.bind(tensor)
        else:
            port.staged.copy_(tensor)
    made = [port.fresh() if port.staged is None else port.staged for port in outputs]
    run()
    return [tensor if port.staged is None else tensor.clone() for port, tensor in zip(outputs, made, strict=True)]
