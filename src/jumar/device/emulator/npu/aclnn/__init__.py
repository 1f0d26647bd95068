"""`torch.npu.aclnn`: the library of binary kernels, and its switch for convolutions."""

from __future__ import annotations

import sys
from types import ModuleType

from jumar.device.emulator.npu.aclnn.backends import version
from jumar.device.emulator.npu.backends import conv

__all__ = ["version"]


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
