"""Sketches of tensors: the random-sign projection of `jumar.recording.sketch`, taken where the tensor is.

On the CPU (and on an emulated device, whose memory is the CPU's) one pass of NumPy over the memory; of a
tensor that does not fit a second-level cache the statistics are taken with it, block by block, so that the
memory is read once. On a real device PyTorch's operators on that device, 256 bytes a tensor, read back once
a step.

A sketch is over the elements in logical order. Contiguous views of the same elements share one. A view in
another order, of a part, or with repeated elements (`expand`) of memory that has a sketch in its present
state carries none: what it is made of is known, and it would have to be copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch

from jumar.capture.notes.calls import Call, Seen, packed
from jumar.capture.notes.memory import as_array, borrowed, host_view
from jumar.capture.probes.base import Probe
from jumar.capture.probes.stats import SMALL, TINY, SmallTensors, blocks_of, is_plain, maximum_of, minimum_of
from jumar.recording import sketch

_NOTHING = bytes(sketch.NUM_BYTES)

_BLOCKS_AT_ONCE = 128
"""Blocks of signs put together on a device at once: 67 MB for tensors of more than 16 million elements."""


class SketchProbe(Probe):
    """Fills `Seen.sketch`, and `Seen.statistics` of big tensors on the host: it comes before `StatsProbe`."""

    def __init__(self) -> None:
        self._pending: list[tuple[Seen, torch.Tensor]] = []
        self._sketched: dict[Any, Seen] = {}
        self._largest: dict[int, tuple[int, int]] = {}
        """State and greatest number of elements of what has a sketch, by storage."""
        self._copies: list[tuple[Seen, Seen]] = []
        self._small = SmallTensors(_sketch_small)
        self._sums = _LaneSums()

    def on_tensor(self, seen: Seen, tensor: torch.Tensor) -> None:
        """Compute the sketch, or start to on a device."""
        if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_quantized:
            return
        size = tensor.numel()
        if not size:
            seen.sketch = _NOTHING
        elif not self._is_known(seen, tensor, size) and seen.sketch is None:  # None: not carried over from a step
            on_host = host_view(tensor)
            if on_host is None:
                self._pending.append((seen, device_sketch(tensor)))
            elif not is_plain(seen, on_host):
                seen.sketch = host_sketch(on_host)
            elif size <= SMALL:
                self._small.add(seen, on_host, size)
            elif not self._sums.take(seen, on_host, size):
                seen.sketch = host_sketch(on_host)

    def _is_known(self, seen: Seen, tensor: torch.Tensor, size: int) -> bool:
        """Return whether the elements have a sketch already, in this order or in another."""
        try:
            version = tensor._version
        except RuntimeError:  # a tensor made under torch.inference_mode
            return False
        last, largest = self._largest.get(seen.storage, (0, 0))
        if version not in (last, 0):  # 0: views made below autograd count their writes anew
            last, largest = version, 0
        if not seen.contiguous and (size <= largest or (largest and 0 in seen.stride)):
            return True
        self._largest[seen.storage] = last, max(size, largest)
        if not seen.contiguous or seen.memory is None:
            return False
        twin = self._sketched.setdefault(seen.memory, seen)
        if twin is not seen:
            self._copies.append((seen, twin))
        return twin is not seen

    def on_step_end(self, calls: Sequence[Call]) -> None:
        """Finish what is finished together, and read back what was computed on devices, one transfer a device."""
        self._small.finish()
        self._sums.finish()
        by_device: dict[torch.device, list[tuple[Seen, torch.Tensor]]] = {}
        for seen, projection in self._pending:
            by_device.setdefault(projection.device, []).append((seen, projection))
        self._pending = []
        for group in by_device.values():
            for (seen, _), numbers in zip(group, torch.stack([one for _, one in group]).cpu().numpy(), strict=True):
                seen.sketch = sketch.pack(numbers)
        for seen, twin in self._copies:
            seen.sketch = twin.sketch
        self._copies = []
        self._sketched.clear()
        self._largest.clear()


class _LaneSums:
    """Signed sums by lane of tensors that are folded to sketches together."""

    _MOST = 128
    """Tensors at a time: 2 MB of sums."""

    def __init__(self) -> None:
        self._sums = np.zeros((self._MOST, sketch.NUM_SUMS))
        self._seen: list[Seen] = []

    def take(self, seen: Seen, tensor: torch.Tensor, size: int) -> bool:
        """Take sketch and statistics of a plain tensor of the host; False where NaN, Inf or extreme values are met.

        A block is read once for both.
        """
        sums = self._sums[len(self._seen)]
        sums[:] = 0.0
        flat = tensor.view(-1)
        values = borrowed(flat)
        lowest, highest, squares, total, end, number = math.inf, -math.inf, 0.0, 0.0, 0, 0
        for piece in blocks_of(flat, size):
            start, end = end, end + piece.numel()
            part = values[start:end]
            # NOTE: of NumPy and PyTorch the faster for each: 11 us for a minimum, 10 for a sum of 130,496 (measured).
            squares += torch.dot(piece, piece).item()
            if not TINY <= squares < math.inf:
                return False
            lowest = min(lowest, float(minimum_of(part)))
            highest = max(highest, float(maximum_of(part)))
            total += piece.sum().item()
            while (number + 1) * sketch.BLOCK <= end or (end == size and number * sketch.BLOCK < size):
                sketch.add_block(sums, values[number * sketch.BLOCK : (number + 1) * sketch.BLOCK], number)
                number += 1
        if not math.isfinite(total):
            return False
        if seen.twin is None:
            seen.statistics = packed((lowest, highest, total / size, math.sqrt(squares), 0, 0))
        self._seen.append(seen)
        if len(self._seen) == self._MOST:
            self.finish()
        return True

    def finish(self) -> None:
        """Fill in the sketches."""
        num = len(self._seen)
        if num:
            for seen, numbers in zip(self._seen, sketch.fold_lanes(self._sums[:num]), strict=True):
                seen.sketch = sketch.pack(numbers)
            self._seen = []


def _sketch_small(tensors: list[Seen], starts: list[int], values: np.ndarray) -> None:
    """Fill in the sketches of tensors of up to `LANES` elements that lie one after the other."""
    sizes = np.diff(starts, append=values.size)
    places = np.arange(values.size) - np.repeat(starts, sizes)
    owners = np.repeat(np.arange(len(starts)) * sketch.SIZE, sizes)
    signed = np.where(np.isfinite(values), values, 0.0).astype(np.float64) * sketch.tile()[places]
    found = np.bincount(owners + _first_buckets()[places], signed, len(starts) * sketch.SIZE)
    for seen, numbers in zip(tensors, sketch.narrow(found).reshape(-1, sketch.SIZE), strict=True):
        seen.sketch = sketch.pack(numbers)


@cache
def _first_buckets() -> np.ndarray:
    return sketch.buckets(np.arange(sketch.LANES))


def host_sketch(tensor: torch.Tensor) -> bytes:
    """Return the sketch of a CPU tensor (any shape, strides and dtype)."""
    if tensor.dtype is torch.float32 and tensor.is_contiguous() and not tensor.is_neg():
        return sketch.pack(sketch.project_flat(as_array(tensor).reshape(-1)))
    return sketch.pack(sketch.project_flat(as_array(_flat(tensor))))


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements in logical order as float32, complex ones as two each."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg().reshape(-1).to(torch.float32)


def device_sketch(tensor: torch.Tensor) -> torch.Tensor:
    """Return, on the tensor's device and without waiting, its projection: 64 float32."""
    flat = _flat(tensor.detach())
    flat = torch.where(torch.isfinite(flat), flat, 0.0)
    sums = torch.zeros(_lanes(flat.device).numel(), dtype=torch.float32, device=flat.device)
    for number in range(0, -(-flat.numel() // sketch.BLOCK), _BLOCKS_AT_ONCE):
        part = flat[number * sketch.BLOCK : (number + _BLOCKS_AT_ONCE) * sketch.BLOCK]
        signed = part * _signs(number, part.numel(), flat.device)
        rows = -(-signed.numel() // sketch.LANES)
        signed = torch.nn.functional.pad(signed, (0, rows * sketch.LANES - signed.numel()))
        sums[: sketch.LANES] += signed.view(rows, sketch.LANES).sum(0)
    return sums.index_select(0, _lanes(flat.device)).view(-1, sketch.SIZE).sum(0)


@lru_cache(maxsize=64)
def _tile(device: torch.device, turn: float) -> torch.Tensor:
    return torch.from_numpy(sketch.tile() * np.float32(turn)).to(device)


@lru_cache(maxsize=32)
def _lanes(device: torch.device) -> torch.Tensor:
    return torch.from_numpy(sketch.fold().reshape(-1).copy()).to(device)


def _signs(first: int, num: int, device: torch.device) -> torch.Tensor:
    """Return the signs of `num` elements from the begin of block `first` on."""
    if first == 0 and num <= sketch.TILE:
        return _tile(device, 1.0)[:num]
    parts = []
    for number in range(first, first + -(-num // sketch.BLOCK)):
        start, turn = sketch.block(number)
        parts.append(_tile(device, turn)[start : start + sketch.BLOCK])
    return torch.cat(parts)[:num]
