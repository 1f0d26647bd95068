"""Small models, as graphs with weights and inputs, on which `EngineContract` tests an engine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from jumar.tune.engines.shared.borders import bound
from jumar.tune.graph import Graph
from jumar.tune.graph.fx import from_fx

Captured = tuple[Graph, dict[int, torch.Tensor], list[torch.Tensor]]


class Shuffled(nn.Module):
    """ShuffleNet's unit behind a strided convolution, with pooling and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.left, self.depth = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 3, 1, 1, groups=4, bias=False)
        self.last = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute five numbers of each image."""
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.first(x))), 3, 2, 1)
        one, other = x.chunk(2, 1)
        x = torch.cat([one, nn.functional.hardswish(self.depth(self.left(other)))], 1)
        batch, channels, height, width = x.shape
        x = x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)
        last: torch.Tensor = self.last(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return last


class Block(nn.Module):
    """A transformer's block with causal attention, behind an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 16)
        self.norm, self.joint, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.wide, self.narrow = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Compute a vector for each word."""
        x = self.words(ids)
        batch, length, size = x.shape
        query, key, value = (
            part.view(batch, length, 2, size // 2).transpose(1, 2) for part in self.joint(self.norm(x)).chunk(3, -1)
        )
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, size))
        found: torch.Tensor = x + self.narrow(nn.functional.gelu(self.wide(x)))
        return found


class Borders(nn.Module):
    """Every kind of output: an input, a view of it, views of each other, other strides, scalars, booleans, weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))

    def forward(self, x: torch.Tensor, image: torch.Tensor, scale: torch.Tensor) -> tuple[Any, ...]:
        """Return ten outputs, one of each kind."""
        left, right = torch.split(x @ self.weight, 3, -1)
        return x, x.t(), left, right, (x * scale).t(), x.sum(), x > 0, self.weight, (image + 1) * scale, left.relu()


class Copies(nn.Module):
    """Outputs that are equal, and an input, in memory of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return four outputs of different memory."""
        made = self.layer(image)
        return made, made.clone(), image.clone(), image.clone().flatten(1)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Sequence[torch.Tensor]]]] = {
    "convolutions": (Shuffled, lambda: [torch.randn(2, 3, 24, 24)]),
    "attention": (Block, lambda: [torch.randint(0, 11, (2, 7))]),
    "borders": (
        Borders,
        lambda: [
            torch.randn(5, 4), torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.tensor(1.5),
        ],
    ),
    "copies": (Copies, lambda: [torch.randn(2, 3, 6, 6)]),
}  # fmt: skip


@lru_cache
def captured(name: str) -> Captured:
    """Return a model's graph, weights and inputs; equal in every call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made, example = MODELS[name]
        return graph_of(made(), list(example()))


def graph_of(model: nn.Module, inputs: list[torch.Tensor]) -> Captured:
    """Return any model's graph, its weights with statistics that are not trivial."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_var, 0.5, 1.5)  # type: ignore[arg-type]
            nn.init.normal_(module.running_mean, 0, 0.2)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's exporter copies what PyTorch deprecates
        program = torch.export.export(model.eval(), tuple(inputs)).run_decompositions({})
    known: dict[str | None, Any] = {**program.state_dict, **program.constants}
    targets = [spec.target for spec in program.graph_signature.input_specs]
    weights = {place: known[target].detach() for place, target in enumerate(targets) if target in known}
    graph, held = from_fx(program.graph_module, weights)
    return graph, weights | held, inputs


def other_inputs(example: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return inputs of the same strides with other values."""
    return [tensor.flip(0) if tensor.dim() and not tensor.is_floating_point() else tensor * -0.75 for tensor in example]


def plain(graph: Graph, constants: Mapping[int, torch.Tensor], inputs: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    """Return what PyTorch computes, operator by operator."""
    outputs: tuple[Any, ...] = bound(graph, constants)(*inputs)
    return outputs


def process_state() -> tuple[Any, ...]:
    """Return what an engine may not change: threads, cores, denormals, oneDNN, variables of the environment."""
    tiny = torch.tensor(1e-39) * 1.0
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    return torch.get_num_threads(), cores, tiny.item() > 0, torch.backends.mkldnn.enabled, dict(os.environ)
