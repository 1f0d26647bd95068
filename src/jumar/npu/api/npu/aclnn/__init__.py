"""`torch.npu.aclnn`: the library of binary kernels, and its switch for convolutions."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType

from jumar.npu.api.npu.aclnn.backends import version
from jumar.npu.api.npu.backends import conv

__all__ = ["flags", "set_flags", "version"]


def set_flags(_allow_hf32: bool | None = None) -> tuple[bool]:
    """Set the switch unless it is None; return what it was."""
    before = bool(conv.allow_hf32)
    if _allow_hf32 is not None:
        conv.allow_hf32 = _allow_hf32
    return (before,)


@contextlib.contextmanager
def flags(allow_hf32: bool = True) -> Iterator[None]:
    """Within the block, convolutions may compute in HF32, or not."""
    before = set_flags(allow_hf32)
    try:
        yield
    finally:
        set_flags(*before)


class _Module(ModuleType):
    """A module with a switch as an attribute."""

    @property
    def allow_hf32(self) -> bool:
        """Whether convolutions may compute in HF32: the same switch as `torch.npu.conv.allow_hf32`."""
        return bool(conv.allow_hf32)

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        conv.allow_hf32 = value


sys.modules[__name__].__class__ = _Module
