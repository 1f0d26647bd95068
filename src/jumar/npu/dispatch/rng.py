"""Random numbers: operators on the npu draw from the CPU's default generator.

A script that runs on the emulator therefore draws the same numbers as on the CPU, which is what makes
the two runs comparable. The vendor's devices have generators of their own, with other numbers.

C++ cannot make a generator for a device written in Python, so `torch.Generator(device="npu")` gives a
subclass that is a CPU generator inside; npu operators take it, and take no generator of another device.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from jumar.npu.core.devices import index_from
from jumar.npu.core.state import STATE


class NpuGenerator(torch._C.Generator):
    """A generator for operators on the npu. It draws what a CPU generator of the same seed draws."""

    npu_index: int
    _cdata: int

    def __new__(cls, device: Any = None) -> NpuGenerator:
        """Return a generator for a device, by default the current one."""
        base: Any = super()
        made: NpuGenerator = base.__new__(cls, device="cpu")
        made.npu_index = index_from(device)
        _known[made._cdata] = made
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The npu device this generator is for."""
        return torch.device("npu", self.npu_index)

    def clone_state(self) -> NpuGenerator:
        """Return a new generator in the same state."""
        copy = NpuGenerator(self.npu_index)
        copy.set_state(self.get_state())
        return copy


_known: weakref.WeakValueDictionary[int, NpuGenerator] = weakref.WeakValueDictionary()
"""Live npu generators by the address of the C++ generator, which is all that a kernel sees of them."""


class _GeneratorType(type(torch._C.Generator)):  # type: ignore[misc]
    """Makes every generator an instance of `torch.Generator`, and every class of them a subclass."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, (torch._C.Generator, _DefaultGenerator))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, (torch._C.Generator, _DefaultGenerator))


class _Generator(torch._C.Generator, metaclass=_GeneratorType):
    """`torch.Generator`, which also makes generators for the npu."""

    def __new__(cls, device: Any = "cpu") -> Any:
        if device is not None and torch.device(device).type == "npu":
            return NpuGenerator(device)
        return torch._C.Generator(device=device)


class _DefaultGenerator:
    """`torch.npu.default_generators[i]`: the CPU's default generator under the name of a device."""

    def __init__(self, index: int) -> None:
        self.device = torch.device("npu", index)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.default_generator, name)


def default_generators() -> tuple[Any, ...]:
    """Return the default generator of each logical device."""
    return tuple(_DefaultGenerator(index) for index in range(STATE.num_devices))


def to_cpu_generator(generator: Any) -> Any:
    """Return the CPU generator behind an npu one; None stays None. Raises RuntimeError for another device's."""
    if generator is None or generator._cdata in _known:
        return generator
    raise RuntimeError(f"Expected a 'npu' device type for generator but found '{generator.device.type}'")


def install() -> None:
    """Let `torch.Generator(device="npu")` work."""
    torch.Generator = _Generator  # type: ignore[misc]
