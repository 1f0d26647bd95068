"""Small models and their graphs, for the tests of precision."""

from __future__ import annotations

from typing import Any

import torch
from graph_models import Swaps
from torch import nn

from jumar.tune.graph import Graph
from jumar.tune.graph.fx import from_fx


class Residual(nn.Module):
    """Convolutions of which one is read twice, batch norm, a product with a transposed weight, a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.linear = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.Linear(8, 5)
        self.weight = nn.Parameter(torch.randn(5, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        stem = self.norm(self.first(x)).relu()
        body = (stem + self.second(stem)).mean((2, 3))
        return torch.softmax(torch.mm(self.linear(body), self.weight), -1)


class Attention(nn.Module):
    """One transformer layer, with a split of several outputs."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v))
        made: torch.Tensor = x + self.down(nn.functional.gelu(self.up(x)))
        return made


class Shuffled(nn.Module):
    """ShuffleNet's unit: a split, one half through convolutions, both joined and their channels shuffled; twice."""

    def __init__(self, *, named: bool = False) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.first, self.second = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        self.named = named

    def unit(self, x: torch.Tensor, convolution: nn.Module) -> torch.Tensor:
        left, right = x.chunk(2, 1)
        x = torch.cat([left, convolution(right).relu()], 1)
        if self.named:
            return nn.functional.channel_shuffle(x, 2)
        batch, channels, height, width = x.shape
        return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(self.stem(x).relu(), 2)
        return self.unit(self.unit(x, self.first), self.second).mean((2, 3))


class Exchanged(nn.Module):
    """A linear layer behind two buffers that change places."""

    def __init__(self) -> None:
        super().__init__()
        self.swaps, self.linear = Swaps(), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.linear(self.swaps(x))
        return made


def graph_of(model: nn.Module, *inputs: torch.Tensor) -> tuple[Graph, dict[int, torch.Tensor]]:
    """Return the inference graph of a model, and its weights by place."""
    program = torch.export.export(model.eval(), inputs)
    known: dict[str | None, Any] = {**program.state_dict, **program.constants}
    targets = [spec.target for spec in program.graph_signature.input_specs]
    weights = {place: known[target].detach() for place, target in enumerate(targets) if target in known}
    graph, held = from_fx(program.graph_module, weights)
    return graph, weights | held
