"""`import torch_npu` without the vendor's package: every public name of it resolves to the emulator.

`homes` says which module of the emulator answers for which of the vendor's, `finder` answers the imports,
`coverage` counts what works. What is not emulated is a function or class that refuses (see `refusals`).
"""

from __future__ import annotations

from jumar.npu.api.alias import finder
from jumar.npu.api.alias.coverage import works
from jumar.npu.api.alias.finder import VERSION
from jumar.npu.api.pytorch import neutral
from jumar.npu.core import refusals
from jumar.npu.parallel.multiprocessing import reductions

__all__ = ["VERSION", "install"]

refusals.WORKS.append(works)


def install() -> None:
    """Let `import torch_npu` resolve to the emulator, and PyTorch's own objects know the npu as with torch_npu."""
    finder.install()
    neutral.install()
    reductions.install()
    finder.load_where_asked()
