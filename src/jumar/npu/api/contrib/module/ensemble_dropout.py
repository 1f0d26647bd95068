"""Dropout whose masks are drawn for a whole step at once."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn

from jumar.npu.api.contrib.module.drop_path import Requests

Tensor = torch.Tensor

__all__ = ["NpuCachedDropout", "NpuFairseqDropout"]

_Key = tuple[Any, torch.dtype, torch.device, float]


class NpuCachedDropout(nn.Dropout):
    """Dropout that takes its masks from a stock.

    The stock is filled when a model ends its forward, with as many masks as were asked for in vain: call
    `enable_dropout_ensemble(model)`. Nothing is dropped before, so neither in the first step. As the
    vendor's, it does not look at `training`: while masks are in stock it drops in evaluation as well. The
    stock is one for all layers of the process.
    """

    task_dict: ClassVar[dict[_Key, Requests]] = {}
    dropout_stream: ClassVar[Any] = None

    def __init__(self, p: float, module_name: str | None = None) -> None:
        super().__init__(p)
        self.module_name = module_name

    def forward(self, x: Any) -> Any:
        """Return the tensor `x` with elements dropped; for a list [shape, dtype, device] the mask, or None.

        Raises RuntimeError for anything else.
        """
        if isinstance(x, Tensor):
            shape, dtype, device = x.shape, x.dtype, x.device
        elif isinstance(x, list):
            shape, dtype, device = x
        else:
            raise RuntimeError("input type error!")
        unchanged = x if isinstance(x, Tensor) else None
        if self.p == 0:
            return unchanged
        requests = self.task_dict.setdefault((shape, dtype, device, self.p), Requests())
        if not requests.drawn:
            requests.num += 1
            return unchanged
        mask = requests.drawn.pop(0)
        return mask if unchanged is None else torch.ops.npu.npu_dropout_do_mask(unchanged, mask, self.p)[0]

    @classmethod
    def enable_dropout_ensemble(cls, model: nn.Module) -> None:
        """Draw the masks that were asked for whenever `model` ends its forward."""
        npu: Any = torch.npu  # type: ignore[attr-defined]
        if cls.dropout_stream is None:
            cls.dropout_stream = npu.Stream()

        def wait(*_arguments: Any) -> None:
            npu.current_stream().wait_stream(cls.dropout_stream)

        def draw(*_arguments: Any) -> None:
            for (shape, dtype, device, p), requests in cls.task_dict.items():
                for _ in range(requests.num - len(requests.drawn)):
                    requests.drawn.append(torch.ops.npu.npu_dropout_gen_mask(shape, p=p, dtype=dtype, device=device))

        model.register_forward_pre_hook(wait)
        model.register_forward_hook(draw)


NpuFairseqDropout = NpuCachedDropout
