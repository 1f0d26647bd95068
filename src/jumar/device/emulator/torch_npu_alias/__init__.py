"""`import torch_npu` without the vendor's package: every public name of it resolves to the emulator.

`homes` says which module of the emulator answers for which of the vendor's, `finder` answers the imports,
`coverage` counts what works. What is not emulated is a function or class that refuses (see `refusals`).
"""

from __future__ import annotations

from jumar.device.emulator import neutral, refusals
from jumar.device.emulator.torch_npu_alias import finder
from jumar.device.emulator.torch_npu_alias.coverage import works
from jumar.device.emulator.torch_npu_alias.finder import VERSION
from jumar.device.emulator.torch_npu_multiprocessing import reductions

__all__ = ["VERSION", "install"]

refusals.WORKS.append(works)


def install() -> None:
    """Let `import torch_npu` resolve to the emulator, and PyTorch's own objects know the npu as with torch_npu."""
    finder.install()
    neutral.install()
    reductions.install()
