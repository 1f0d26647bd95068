"""`Run`: a stretch of a flat buffer that one update covers, and its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

Tensor = torch.Tensor

BLOCK_BYTES = 1 << 17
"""Of one tensor, on the CPU and for one thread: some six of them, those of an update, fit the second-level cache."""
DEVICE_BLOCK = 1 << 22
"""Elements of a block elsewhere, where the time for launching an operator counts; it bounds the scratch memory."""


class Piece(NamedTuple):
    """One parameter in a run."""

    start: int
    """First element, within the run."""
    length: int
    shape: tuple[int, ...]


class Block(NamedTuple):
    """Some consecutive elements of a run: flat views of the same length."""

    parameter: Tensor
    gradient: Tensor
    state: tuple[Tensor, ...]
    scratch: tuple[Tensor, ...]


@dataclass(slots=True)
class Run:
    """Parameters that lie side by side and are updated together: one group, device, dtype and number of steps."""

    parameter: Tensor
    """Flat."""
    gradient: Tensor
    """Flat, of the same order of elements."""
    state: dict[str, Tensor]
    """The optimizer's buffers by name, flat."""
    steps: Tensor
    """Updates so far, this one included: 0-dim float32 on the CPU."""
    pieces: Sequence[Piece]
    factor: float = 1.0
    """What the gradient is multiplied by, in place, before it is used."""
    kept: dict[str, Tensor] = field(default_factory=dict)
    """What a formula keeps from step to step beside the state: nothing that a checkpoint needs."""

    def first_step(self) -> bool:
        """Return whether this is the first update of these parameters."""
        return self.steps.item() <= 1

    def blocks(self, names: Sequence[str], num_scratch: int) -> Iterator[Block]:
        """Yield the run in blocks that stay in the cache, with the state of these names and with scratch memory.

        The gradient is multiplied by `factor` as its block comes; a run is gone through once a step with it.
        """
        size = block_length(self.parameter)
        scratch = scratch_like(self.parameter, num_scratch, size)
        tensors = [self.parameter, self.gradient, *(self.state[name] for name in names)]
        if self.parameter.numel() <= size:
            short = tuple(one[: self.parameter.numel()] for one in scratch)
            yield self._scaled(Block(tensors[0], tensors[1], tuple(tensors[2:]), short))
            return
        for parameter, gradient, *state in zip(*(torch.split(tensor, size) for tensor in tensors), strict=True):
            length = parameter.numel()
            fitting = scratch if length == size else tuple(one[:length] for one in scratch)
            yield self._scaled(Block(parameter, gradient, tuple(state), fitting))

    def _scaled(self, block: Block) -> Block:
        if self.factor != 1:
            block.gradient.mul_(self.factor)
        return block

    def scale_gradient(self) -> None:
        """Multiply the whole gradient by `factor`, for formulas that look at it more than once."""
        if self.factor != 1:
            self.gradient.mul_(self.factor)
            self.factor = 1.0


def block_length(tensor: Tensor) -> int:
    """Return how many elements a block has."""
    if tensor.device.type != "cpu":
        return DEVICE_BLOCK
    return BLOCK_BYTES // tensor.element_size() * torch.get_num_threads()


_SCRATCH: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}


def scratch_like(tensor: Tensor, number: int, length: int) -> tuple[Tensor, ...]:
    """Return `number` flat tensors of this length, dtype and device, used again and again, with any content."""
    if tensor.device.type != "cpu":  # its allocator keeps memory already, and counts what is held here
        length = min(length, tensor.numel())
        return tuple(torch.empty(length, dtype=tensor.dtype, device=tensor.device) for _ in range(number))
    kept = _SCRATCH.setdefault((tensor.device, tensor.dtype), [])
    if kept and kept[0].numel() < length:
        kept.clear()
    while len(kept) < number:
        kept.append(torch.empty(length, dtype=tensor.dtype, device=tensor.device))
    return tuple(one[:length] for one in kept[:number])
