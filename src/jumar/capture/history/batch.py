"""Norms and samples of many tensors at once, read back from their device once a step: `Batch`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from jumar.capture.notes.memory import dense, host_view, is_wrapper, local_part
from jumar.recording.history.model import NUM_SAMPLES, NUM_VALUES, Floats, Place, Role

Tensor = torch.Tensor
_Kind = tuple[torch.device, torch.dtype]


class Batch:
    """Tensors of one step. `add` notes them, `reduce` computes on their devices and waits for none, `read` waits."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Role, str, str, str, torch.Size, tuple[int, ...]], int] = {}
        self._places: list[Place] = []
        self._waiting: dict[_Kind, tuple[list[int], list[Tensor]]] = {}
        self._reduced: list[tuple[list[int], Tensor]] = []
        self._last: tuple[list[int], tuple[Place, ...]] = [], ()

    def add(self, role: Role, owner: str, name: str, slot: str, tensor: Tensor) -> None:
        """Note a tensor, which must not change before `reduce`. One without elements of its own is left out."""
        tensor = local_part(tensor)
        if tensor.layout is not torch.strided or tensor.is_quantized or is_wrapper(tensor) or not _has_memory(tensor):
            return
        key = role, owner, name, slot, tensor.shape, tensor.stride()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._places)
            order = "" if tensor.is_contiguous() else "x".join(map(str, tensor.stride()))
            self._places.append(Place(role, owner, name, slot, tuple(tensor.shape), order))
        flat = flat_values(tensor)
        numbers, tensors = self._waiting.setdefault((flat.device, flat.dtype), ([], []))
        numbers.append(number)
        tensors.append(flat)

    def reduce(self) -> None:
        """Compute the numbers of what was noted since the last time."""
        for (_, dtype), (numbers, tensors) in self._waiting.items():
            norms = torch.stack(list(_norms(tensors, dtype))).to(torch.float32).unsqueeze(1)
            samples = torch.cat([_sampled(flat) for flat in tensors]).to(torch.float32).view(-1, NUM_SAMPLES)
            self._reduced.append((numbers, torch.cat((norms, samples), 1)))
        self._waiting = {}

    def read(self) -> tuple[tuple[Place, ...], Floats]:
        """Return the numbers of the step, the last of each place, and forget them. Waits for each device once.

        Steps with the same places get the same tuple.
        """
        self.reduce()
        by_device: dict[torch.device, list[tuple[list[int], Tensor]]] = {}
        for of_places, numbers in self._reduced:
            by_device.setdefault(numbers.device, []).append((of_places, numbers))
        self._reduced = []
        if not by_device:
            return (), np.empty((0, NUM_VALUES), np.float32)
        found = [number for group in by_device.values() for of_places, _ in group for number in of_places]
        read = [torch.cat([numbers for _, numbers in group]).cpu() for group in by_device.values()]
        values: Floats = torch.cat(read).numpy()
        last = {number: row for row, number in enumerate(found)}
        if len(last) < len(found):
            values = values[list(last.values())]
        if self._last[0] != (ordered := list(last)):
            self._last = ordered, tuple(self._places[number] for number in ordered)
        return self._last[1], values


def _has_memory(tensor: Tensor) -> bool:
    """Tell whether a tensor's elements are somewhere: not on the meta device, nor given back by FSDP."""
    return tensor.numel() > 0 and not tensor.is_meta and tensor.untyped_storage().nbytes() > 0


def flat_values(tensor: Tensor) -> Tensor:
    """Return the elements as floating point numbers in one dimension, in the order of the memory where it has no gaps.

    Of an emulated device, whose memory is the host's, a tensor of the host.
    """
    on_host = host_view(tensor)
    values = tensor.detach() if on_host is None else on_host
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    flat = values.view(-1) if values.is_contiguous() else dense(values)[0]
    return flat if flat.is_floating_point() and flat.dtype.itemsize > 1 else flat.to(torch.float32)


def _sampled(flat: Tensor) -> Tensor:
    """Return elements at fixed positions, spread evenly; of fewer than `NUM_SAMPLES` the first one repeated."""
    step = flat.numel() // NUM_SAMPLES
    return flat.as_strided((NUM_SAMPLES,), (step,), flat.storage_offset() + step // 2)


def _norms(tensors: list[Tensor], dtype: torch.dtype) -> Sequence[Tensor]:
    # NOTE: sums of squares of half types leave their range
    wanted = dtype if dtype is torch.float64 else torch.float32
    try:
        norms: Sequence[Tensor] = torch._foreach_norm(tensors, 2, dtype=wanted)
    except (RuntimeError, NotImplementedError, TypeError):  # a device, or an older PyTorch, without it
        norms = [torch.linalg.vector_norm(tensor, dtype=wanted) for tensor in tensors]
    return norms
