"""`apex` where none is installed: mixed precision by levels, the optimizers' names, `parallel`, `fp16_utils`.

Interface and behaviour are those of NVIDIA's Apex and of Ascend's patch (nvidia.github.io/apex, `patch/npu.patch` of
gitcode.com/Ascend/apex). `jumar.amp.install` puts this package in the place of `import apex`.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["amp", "fp16_utils", "normalization", "optimizers", "parallel"]


def __getattr__(name: str) -> Any:
    """Import a module of apex when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'apex' has no attribute {name!r}; it has {', '.join(__all__)}")
    return importlib.import_module(f"{__name__}.{name}")
