"""`HashProbe` takes the hashes of tensors that `jumar.recording.hashing` defines.

On the host one pass of NumPy; on a real device PyTorch's operators on it, eight bytes a tensor, read back
once a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from jumar.capture.notes.calls import Call, Seen
from jumar.capture.notes.memory import as_array, host_view
from jumar.capture.probes.base import Probe
from jumar.recording import hashing
from jumar.recording.hashing import LIMIT, SHIFT, WORDS, factor, keys, sum_of


class HashProbe(Probe):
    """Fills `Seen.hash`."""

    def __init__(self) -> None:
        self._pending: list[tuple[Seen, torch.Tensor]] = []
        self._sums: dict[Any, int] = {}

    def on_tensor(self, seen: Seen, tensor: torch.Tensor) -> None:
        """Compute the hash, or start to on a device."""
        if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_quantized:
            return
        on_host = host_view(tensor)
        if on_host is None:
            self._pending.append((seen, device_sum(tensor)))
            return
        memory = seen.memory if seen.contiguous else None
        known = self._sums.get(memory) if memory is not None else None
        total = host_sum(on_host) if known is None else known
        if memory is not None:
            self._sums[memory] = total
        seen.hash = digest(seen, total)

    def on_step_end(self, calls: Sequence[Call]) -> None:
        """Read back what was computed on devices, one transfer a device."""
        by_device: dict[torch.device, list[tuple[Seen, torch.Tensor]]] = {}
        for seen, total in self._pending:
            by_device.setdefault(total.device, []).append((seen, total))
        self._pending = []
        self._sums.clear()
        for group in by_device.values():
            for (seen, _), total in zip(group, torch.stack([one for _, one in group]).tolist(), strict=True):
                seen.hash = digest(seen, total)


def digest(seen: Seen, total: int) -> str:
    """Return the hash of a tensor with the sum `total` over its words."""
    return hashing.digest(str(seen.dtype).removeprefix("torch."), seen.shape, total)


def host_sum(tensor: torch.Tensor) -> int:
    """Return the sum over the words of a CPU tensor (any shape, strides and dtype), modulo 2⁶⁴."""
    return sum_of(as_array(_octets(tensor)))


def device_sum(tensor: torch.Tensor) -> torch.Tensor:
    """Return, on the tensor's device and without waiting, the sum over its words as a signed 64-bit integer."""
    octets = _octets(tensor.detach())
    num = octets.numel()
    size = WORDS if num > 8 * WORDS else -(-num // 8)
    rows = -(-num // (8 * size)) if size else 0
    padded = octets.new_zeros(8 * size * rows)
    padded[:num] = octets
    words = padded.view(torch.int64).view(rows, size)
    by_block = ((words ^ (words >> SHIFT)) * _device_keys(tensor.device)[:size]).sum(1)
    factors = [_signed(factor(number)) for number in range(rows)]
    return (by_block * torch.tensor(factors, dtype=torch.int64).to(tensor.device, non_blocking=True)).sum()


def _octets(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of the elements in logical order."""
    return tensor.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)


@lru_cache(maxsize=32)
def _device_keys(device: torch.device) -> torch.Tensor:
    return torch.from_numpy(keys().copy()).to(device)


def _signed(value: int) -> int:
    return value - LIMIT if value >= LIMIT // 2 else value
