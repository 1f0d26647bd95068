"""Notice launches of Triton kernels that are no operators: PyTorch's dispatcher does not see them.

On the emulated NPU a launch is an operator, `triton::NAME`, and has its row. On a real device it goes from Triton to
the driver. A recording that held nothing of it, and said nothing, would let a comparison pass over it.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from jumar.base.lazy import after_import
from jumar.npu.ops.triton import IS_OPERATOR

_launched: dict[str, None] = {}
"""Names of the kernels, in the order of their first launch."""
_watched: list[bool] = []


def watch_kernels() -> None:
    """Begin to notice launches. Triton is changed once a process, when it is imported."""
    _launched.clear()
    if not _watched:
        _watched.append(True)
        after_import({"triton.runtime.jit": _watch_compiled, "triton.runtime.interpreter": _watch_interpreted})


def unseen_kernels() -> str:
    """Return the sentence on what was launched unseen, empty when nothing was."""
    if not _launched:
        return ""
    return f"what Triton kernels computed, which PyTorch's dispatcher does not see: {', '.join(_launched)}"


def _watch_compiled(module: ModuleType) -> None:
    _watch(module.JITFunction)


def _watch_interpreted(module: ModuleType) -> None:
    _watch(module.InterpretedFunction)


def _watch(kernels: Any) -> None:
    run = kernels.run
    if getattr(run, IS_OPERATOR, False):
        return

    @functools.wraps(run)
    def noticing(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("warmup"):
            _launched[getattr(self, "__name__", None) or self.fn.__name__] = None
        return run(self, *args, **kwargs)

    kernels.run = noticing
