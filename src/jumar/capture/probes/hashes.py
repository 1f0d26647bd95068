"""Hashes of tensors: 64 bits over dtype, shape and the elements in logical order.

The bytes of the elements, padded with zeros, are read as 64-bit words w (little-endian) and, with wrapping
64-bit arithmetic that every device has,

    m = w xor (w >> 33)                                    (arithmetic shift)
    h = Σ factor(block) · Σ m · key(place in the block)    mod 2⁶⁴, blocks of 32,768 words

a multilinear hash (Carter and Wegman 1979): two tensors that differ have equal hashes with a probability of
at most 2⁻³³, and of about 2⁻⁶⁴ where low bits differ. Dtype, shape and h then pass through BLAKE2b. Equal
hashes are equal bits: -0.0 is not 0.0, and two NaNs may differ.

On the host one pass of NumPy; on a real device PyTorch's operators on it, eight bytes a tensor, read back
once a step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from jumar.capture.notes.calls import Call, Seen
from jumar.capture.notes.memory import as_array, host_view
from jumar.capture.probes.base import Probe
from jumar.recording.sketch import mix

WORDS = 1 << 15
"""64-bit words in a block: keys and values of a block fit a second-level cache."""

_SHIFT = 33
_LIMIT = 1 << 64

Words = npt.NDArray[np.int64]


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
    """Return 16 hexadecimal digits of a tensor with the sum `total` over its words."""
    text = f"{str(seen.dtype).removeprefix('torch.')}{tuple(seen.shape)}{total % _LIMIT}"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def host_sum(tensor: torch.Tensor) -> int:
    """Return the sum over the words of a CPU tensor (any shape, strides and dtype), modulo 2⁶⁴."""
    octets = as_array(_octets(tensor))
    whole = octets.size // 8
    words = octets[: whole * 8].view(np.int64) if octets.ctypes.data % 8 == 0 else _copied(octets[: whole * 8])
    total = 0
    for number, start in enumerate(range(0, whole, WORDS)):
        total += factor(number) * _sum_of_block(words[start : start + WORDS])
    if octets.size % 8:
        last = _copied(np.pad(octets[whole * 8 :], (0, 8 - octets.size % 8)))
        total += factor(whole // WORDS) * (int(last[0] ^ (last[0] >> _SHIFT)) * int(keys()[whole % WORDS]))
    return total % _LIMIT


def _sum_of_block(words: Words) -> int:
    mixed = words >> _SHIFT
    mixed ^= words
    # NOTE: einsum takes 0.6 ns a word, np.dot 0.75 and a product with a sum 1.1 (65,536 words, measured).
    return int(np.einsum("w,w->", mixed, keys()[: words.size]))


def device_sum(tensor: torch.Tensor) -> torch.Tensor:
    """Return, on the tensor's device and without waiting, the sum over its words as a signed 64-bit integer."""
    octets = _octets(tensor.detach())
    num = octets.numel()
    size = WORDS if num > 8 * WORDS else -(-num // 8)
    rows = -(-num // (8 * size)) if size else 0
    padded = octets.new_zeros(8 * size * rows)
    padded[:num] = octets
    words = padded.view(torch.int64).view(rows, size)
    by_block = ((words ^ (words >> _SHIFT)) * _device_keys(tensor.device)[:size]).sum(1)
    factors = [_signed(factor(number)) for number in range(rows)]
    return (by_block * torch.tensor(factors, dtype=torch.int64).to(tensor.device, non_blocking=True)).sum()


def _octets(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of the elements in logical order."""
    return tensor.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)


def _copied(octets: npt.NDArray[np.uint8]) -> Words:
    return np.frombuffer(octets.tobytes(), np.int64)


@cache
def keys() -> Words:
    """Return the keys of the places in a block, 64 pseudo-random bits each (read-only)."""
    numbers = np.arange(WORDS, dtype=np.int64)
    found = (mix(numbers + 0x1000_0000) << 32) | mix(numbers + 0x3000_0000)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=32)
def _device_keys(device: torch.device) -> torch.Tensor:
    return torch.from_numpy(keys().copy()).to(device)


@lru_cache(maxsize=1 << 16)
def factor(number: int) -> int:
    """Return the odd factor of a block; 1 for the first."""
    if number == 0:
        return 1
    high, low = mix(np.array([number + 0x5000_0000, number + 0x7000_0000]))
    return (int(high) << 32) | int(low) | 1


def _signed(value: int) -> int:
    return value - _LIMIT if value >= _LIMIT // 2 else value
