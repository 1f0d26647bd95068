"""States of the generators that random numbers are drawn from, as digests: two runs with equal digests draw the same.

Reading a state draws nothing and waits for no device: PyTorch keeps the states of all generators, also those
of devices, in host memory. Random operators on the emulated NPU draw from the CPU's generator, and so their
digests are those of the same run on the CPU.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch


def operator_digest(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the digest of the generator that an operator called with these arguments draws from, as it is now.

    That is the generator among its arguments, else the default one of the device of its first tensor, else of the
    device it was asked for, else the CPU's. Empty when that device has none yet.
    """
    device: torch.device | None = None
    for value in _flat(args, kwargs):
        if isinstance(value, torch.Generator):
            return digest(value.get_state())
        if device is None and isinstance(value, torch.Tensor):
            device = value.device
    wanted = kwargs.get("device")
    if wanted is None:
        wanted = next((value for value in args if isinstance(value, torch.device)), None)
    generator = default_generator(device or torch.device(wanted or "cpu"))
    return "" if generator is None else digest(generator.get_state())


def step_digests() -> dict[str, str]:
    """Return the digest of every generator of the process: `python`, `numpy`, `cpu` and one a device, `npu:0`.

    NumPy's is its global one, and only of a process that has imported NumPy.
    """
    digests = {"python": _python_digest(random.getstate())}
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        name, keys, *rest = numpy.get_state()
        digests["numpy"] = digest(name.encode() + keys.tobytes() + repr(rest).encode())
    digests["cpu"] = digest(torch.default_generator.get_state())
    digests |= {name: digest(generator.get_state()) for name, generator in _device_generators()}
    return digests


@lru_cache(maxsize=1)
def _python_digest(state: tuple[Any, ...]) -> str:
    """Return the digest of Python's state: 625 numbers as text, which most programs leave as they are for long."""
    return digest(repr(state).encode())


def default_generator(device: torch.device) -> Any:
    """Return the generator that a device draws from by default; None for a device that has none (yet)."""
    if device.type in {"cpu", "meta"}:
        return torch.default_generator
    module = getattr(torch, device.type, None)
    generators = getattr(module, "default_generators", ())
    if module is None or not generators:
        return None
    index = device.index if device.index is not None else int(module.current_device())
    return generators[index] if index < len(generators) else None


def digest(state: bytes | torch.Tensor) -> str:
    """Return 16 hexadecimal digits of a generator's state (bytes, or a CPU tensor of them)."""
    data: Any = state.numpy() if isinstance(state, torch.Tensor) else state
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _device_generators() -> Iterator[tuple[str, Any]]:
    for kind in ("cuda", "npu"):
        module = getattr(torch, kind, None)
        if module is None or not module.is_initialized():
            continue
        for index, generator in enumerate(module.default_generators):
            yield f"{kind}:{index}", generator


def _flat(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    for value in (*args, *kwargs.values()):
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value
