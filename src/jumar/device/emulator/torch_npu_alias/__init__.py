"""`import torch_npu` without the vendor's package: every public name of it resolves to the emulator.

`homes` says which module of the emulator answers for which of the vendor's, `finder` answers the imports,
`coverage` counts what works. What is not emulated is a function or class that refuses (see `refusals`).
"""

from __future__ import annotations

from jumar.device.emulator import refusals
from jumar.device.emulator.torch_npu_alias.coverage import works
from jumar.device.emulator.torch_npu_alias.finder import VERSION, install

__all__ = ["VERSION", "install"]

refusals.WORKS.append(works)
