"""`FlatBuffers`: parameters and gradients in contiguous memory, one buffer for each device and dtype."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from jumar.amp.flat.buffer import Buffer
from jumar.amp.flat.checks import reason_against
from jumar.base.errors import InputError

Tensor = torch.Tensor


class FlatBuffers:
    """Contiguous buffers of parameters and of their gradients, one pair for each device and dtype.

    `parameter.data` becomes a view of a buffer at once, `parameter.grad` when there is one. In a buffer the small
    parameters come first, then the large ones (32,768 elements and more), both in the given order, each at a multiple
    of 64 bytes; the gaps are zero. Views stay right when gradients are set to None and filled anew by autograd, when
    `parameter.data` is replaced, and when a model changes its dtype or device: the next call takes the values in.
    Raises InputError for parameters that cannot lie in a flat buffer (see `reason_against`).
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.parameters: list[Tensor] = []
        self.buffers: list[Buffer] = []
        self.generation = 0
        """Counts the times that the buffers were made or changed: what is kept beside them must follow."""
        self.extend(parameters)

    def extend(self, parameters: Iterable[Tensor]) -> None:
        """Add parameters, in buffers of their own. Raises InputError as the constructor does."""
        added = list(parameters)
        reason = reason_against([*self.parameters, *added])
        if reason:
            raise InputError(f"Parameters cannot be combined in flat buffers: {reason}.")
        self.parameters += added
        self._build(added)

    def gradients(self, *, complete: bool = False) -> list[Tensor]:
        """Return the flat gradients, one for each buffer that has any; zero where a parameter has none.

        Gradients that autograd made anew are copied in first. What is written into the result is written into
        `parameter.grad`. `complete`: also those of buffers without any gradient, zero, so that all ranks of a job
        have the same list. Raises InputError for sparse gradients.
        """
        self.refresh()
        with torch.no_grad():
            present = [any(buffer.gather()) for buffer in self.buffers]
            if complete:
                return [buffer.allocated() for buffer in self.buffers]
            pairs = zip(self.buffers, present, strict=True)
            return [buffer.gradient for buffer, there in pairs if there and buffer.gradient is not None]

    def present(self) -> list[bool]:
        """Return, by parameter in the given order, whether it has a gradient that was not cleared."""
        found = {
            id(parameter): there
            for buffer in self.buffers
            for parameter, there in zip(buffer.parameters, buffer.present(), strict=True)
        }
        return [found[id(parameter)] for parameter in self.parameters]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear all gradients. With `set_to_none` small ones stay views, of zeros that count as none; large: None."""
        self.refresh()
        with torch.no_grad():
            for buffer in self.buffers:
                buffer.clear(set_to_none=set_to_none)

    def mark_present(self) -> None:
        """Count every parameter that wants a gradient as having one, with what its part of the flat gradient holds.

        Call it after `gradients()` were summed over the ranks: a parameter that this rank did not use may have got a
        gradient from another one, and all ranks must update it.
        """
        for buffer in self.buffers:
            buffer.mark_present()

    def refresh(self) -> None:
        """Take in parameters whose data were replaced; make the buffers anew if a dtype, device or shape changed."""
        outgrown = [buffer.is_outgrown() for buffer in self.buffers]  # each takes in what moved
        if any(outgrown):
            self.release()
            self._build(self.parameters)

    def release(self) -> None:
        """Give every parameter and gradient memory of its own again, with their values."""
        with torch.no_grad():
            for buffer in self.buffers:
                buffer.release()
        self.buffers = []

    def _build(self, parameters: list[Tensor]) -> None:
        of_kind: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for parameter in parameters:
            of_kind.setdefault((parameter.device, parameter.dtype), []).append(parameter)
        with torch.no_grad():
            self.buffers += [Buffer(of_one) for of_one in of_kind.values()]
        self.generation += 1
