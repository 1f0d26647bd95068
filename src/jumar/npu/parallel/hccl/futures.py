"""Let PyTorch's futures hold npu tensors.

A `torch.futures.Future` of an accelerator takes streams from a pool to order what `then` runs, and PyTorch asks
streams of C++ for that. Work on the emulated NPU is done when its call returns, so there is nothing to order: futures
leave the npu out of their devices, and out of what they look through a value for.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import _jit_internal


def _is_npu(device: Any) -> bool:
    return torch.device(device).type == "npu"


def install() -> None:
    """Have futures take npu tensors. Called once, when the device comes up."""
    future: Any = torch.futures.Future
    plain = future.__init__

    @functools.wraps(plain)
    def init(self: Any, *, devices: Any = None) -> None:
        others = [device for device in devices or () if not _is_npu(device)]
        plain(self, devices=others)

    future.__init__ = init
    module: Any = _jit_internal
    module._TensorExtractor = _extractor(module._TensorExtractor)


class Results(list[Any]):
    """What a collective gives, as the value of a future: DDP's reducer finds its tensors."""

    is_set = False


def done(tensors: Any) -> Any:
    """Return a future that is done, with the list of these tensors."""
    future: Any = torch.futures.Future()
    results = Results(tensors)
    future.set_result(results)
    results.is_set = True
    return future


def _extractor(base: Any) -> Any:
    """Return the pickler with which PyTorch finds the tensors of a future's value, without those of the npu."""

    class Extractor(base):  # type: ignore[misc]
        def dump(self, obj: Any) -> None:
            # NOTE: the reducer reads the results in C++ at the end of a backward pass; any other time it is a future
            # that looks for memory whose streams it would have to follow.
            if isinstance(obj, Results) and obj.is_set and torch._C._current_graph_task_id() != -1:
                self.tensors.extend(obj)
            else:
                super().dump(obj)

        def persistent_id(self, obj: Any) -> Any:
            if isinstance(obj, torch.Tensor) and obj.device.type == "npu":
                return ""
            return super().persistent_id(obj)

    return Extractor
