"""Whole tensors, copied to host memory when they are seen; views of what was copied are not copied again."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from jumar.capture.notes.calls import Call, Named, Seen
from jumar.capture.notes.memory import as_array, host_view, is_wrapper, local_part
from jumar.capture.probes.base import Probe
from jumar.recording.tensors.target import PAGE
from jumar.recording.tensors.views import ArrayView

if TYPE_CHECKING:
    import numpy as np

_RAW = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}
_POOLED = 1 << 16
"""Bytes from which a copy goes to memory that copies of earlier steps have left: fresh memory costs more to
touch than to copy to (measured: 330 MB a step)."""
_BLOCK = 1 << 26


class TensorsProbe(Probe):
    """Fills `Seen.array`. Memory that several tensors share unchanged is copied once."""

    def __init__(self) -> None:
        self._copies: dict[Any, list[tuple[int, int, torch.dtype, np.ndarray]]] = {}
        """First element, number of elements, dtype and copy of stretches of memory, by memory and state."""
        self._pool = _Pool()

    def on_tensor(self, seen: Seen, tensor: torch.Tensor) -> None:
        """Copy the tensor, unless it is a view of a copy; this waits for its device."""
        if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_quantized:
            return
        followed = seen.version >= 0 and not (tensor.is_conj() or tensor.is_neg())
        if not followed or not tensor.numel():
            seen.array = to_array(_on_host(tensor).clone())
            return
        seen.array = self._view(seen) or self._copy(seen, tensor)

    def on_step_end(self, calls: Sequence[Call]) -> None:
        """Forget the step's memory."""
        self._copies.clear()

    def _view(self, seen: Seen) -> ArrayView | None:
        """Return the tensor as a view of what was copied, if it is one."""
        layout = seen.layout
        start = layout.storage_offset
        last = start + sum((size - 1) * step for size, step in zip(layout.shape, layout.stride, strict=True))
        for first, num, dtype, array in self._copies.get((seen.storage, seen.num_writes, seen.version), ()):
            if dtype is layout.dtype and first <= start and last < first + num:
                return ArrayView(array, tuple(layout.shape), layout.stride, start - first)
        return None

    def _copy(self, seen: Seen, tensor: torch.Tensor) -> np.ndarray | ArrayView:
        layout = seen.layout
        is_gapless = layout.addresses[-1] in ((), ((tensor.numel(), 1),))
        if not is_gapless:
            return self._pool.copy(_on_host(tensor))
        # NOTE: memory without gaps is copied as it lies, so that views in any order of dimensions are views of it
        memory = tensor if layout.contiguous else tensor.detach().as_strided((tensor.numel(),), (1,))
        array = self._pool.copy(_on_host(memory))
        stretch = layout.storage_offset, tensor.numel(), layout.dtype, array
        self._copies.setdefault((seen.storage, seen.num_writes, seen.version), []).append(stretch)
        return array if layout.contiguous else ArrayView(array, tuple(layout.shape), layout.stride, 0)


class _Pool:
    """Blocks of memory for copies. A block is used again when nobody holds a copy in it any more."""

    def __init__(self) -> None:
        self._blocks: list[np.ndarray] = []
        self._current: np.ndarray | None = None
        self._end = 0

    def copy(self, tensor: torch.Tensor) -> np.ndarray:
        """Return a contiguous copy of a CPU tensor as an array."""
        size = tensor.numel() * tensor.element_size()
        if size < _POOLED or size > _BLOCK:
            return to_array(tensor.detach().clone(memory_format=torch.contiguous_format))
        target = torch.from_numpy(self._take(size)).view(tensor.dtype).view(tensor.shape)
        target.copy_(tensor)
        return to_array(target)

    def _take(self, size: int) -> np.ndarray:
        if self._current is None or self._end + size > self._current.size:
            self._current = self._free_block()
            self._end = -self._current.ctypes.data % PAGE  # whole pages are written past the system's cache
        start = self._end
        self._end += -(-size // PAGE) * PAGE
        return self._current[start : start + size]

    def _free_block(self) -> np.ndarray:
        import numpy as np

        for number in range(len(self._blocks)):
            if sys.getrefcount(self._blocks[number]) == _UNUSED and self._blocks[number] is not self._current:
                return self._blocks[number]
        self._blocks.append(np.empty(_BLOCK + PAGE, np.uint8))
        return self._blocks[-1]


_UNUSED = 2
"""References to a block of the pool that nobody has a copy in: the pool's, and the argument of the question."""


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    on_host = host_view(tensor)
    return tensor.detach().cpu() if on_host is None else on_host


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """Return a CPU tensor as an array; a dtype NumPy lacks (bfloat16, float8) as raw unsigned integers."""
    plain = tensor.resolve_conj().resolve_neg()
    try:
        return as_array(plain)
    except TypeError:
        return as_array(plain.contiguous().view(_RAW[plain.element_size()]))


def keep(named: Named, values: Any) -> None:
    """Copy the tensors among `values` into the notes that `named` holds of them, in the same order."""
    probe = TensorsProbe()
    for seen, given in zip(named[1::2], _tensors(values), strict=False):
        tensor = local_part(given)
        if seen.array is None and not is_wrapper(tensor):
            probe.on_tensor(seen, tensor)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
