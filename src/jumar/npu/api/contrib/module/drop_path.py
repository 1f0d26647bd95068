"""Stochastic depth whose random numbers are drawn for a whole step at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import nn

Tensor = torch.Tensor

__all__ = ["NpuDropPath"]

_Key = tuple[torch.Size, torch.device, torch.dtype, int]


@dataclass(slots=True)
class Requests:
    """How many random tensors or masks of one kind a step has asked for, and those drawn for the next ones."""

    num: int = 0
    drawn: list[Tensor] = field(default_factory=list)


class NpuDropPath(nn.Module):
    """Drops whole samples with probability `drop_prob` while training, and divides the others by 1 - drop_prob.

    Random numbers are drawn when a model starts its next forward, as many as were asked for before. Call
    `enable_droppath_ensemble(model)`: without it nothing is dropped, and with it nothing in the first step. The
    requests are kept for all layers of the process together.
    """

    task_dict: ClassVar[dict[_Key, Requests]] = {}
    droppath_stream: ClassVar[Any] = None

    def __init__(self, drop_prob: Any = None) -> None:
        super().__init__()
        self.drop_prob = drop_prob
        self.keep_prob = 1 - drop_prob

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with samples dropped. Raises RuntimeError for what is no tensor."""
        if self.drop_prob == 0.0 or not self.training:
            return x
        if not isinstance(x, Tensor):
            raise RuntimeError("input type error!")
        requests = self.task_dict.setdefault((x.shape, x.device, x.dtype, x.ndim), Requests())
        if not requests.drawn:
            requests.num += 1
            return x
        kept = requests.drawn.pop(0).add_(self.keep_prob).floor_()
        return x.div(self.keep_prob) * kept

    @classmethod
    def enable_droppath_ensemble(cls, model: nn.Module) -> None:
        """Draw the random numbers of all drop paths whenever `model` starts its forward."""
        npu: Any = torch.npu  # type: ignore[attr-defined]
        if cls.droppath_stream is None:
            cls.droppath_stream = npu.Stream()

        def wait(*_arguments: Any) -> None:
            npu.current_stream().wait_stream(cls.droppath_stream)

        def draw(*_arguments: Any) -> None:
            with npu.stream(cls.droppath_stream), torch.no_grad():
                for (shape, device, dtype, ndim), requests in cls.task_dict.items():
                    for _ in range(requests.num - len(requests.drawn)):
                        wanted = (shape[0], *[1] * (ndim - 1))
                        requests.drawn.append(torch.rand(wanted, dtype=dtype, device=device))

        model.register_forward_pre_hook(wait)
        model.register_forward_pre_hook(draw)
