"""Models, batches and training steps that the tests of `jumar.amp` share."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

WIDTH, CLASSES = 8, 4


def network(layers: tuple[str, ...] = ("linear", "batchnorm", "relu", "linear"), seed: int = 0) -> nn.Sequential:
    """Return a network of named layers over vectors of 8, with a last layer of 4 classes."""
    torch.manual_seed(seed)
    made: dict[str, Any] = {
        "linear": lambda: nn.Linear(WIDTH, WIDTH),
        "batchnorm": lambda: nn.BatchNorm1d(WIDTH),
        "layernorm": lambda: nn.LayerNorm(WIDTH),
        "relu": nn.ReLU,
        "gelu": nn.GELU,
        "softmax": lambda: nn.Softmax(-1),
    }
    return nn.Sequential(*(made[layer]() for layer in layers), nn.Linear(WIDTH, CLASSES))


layer_lists = st.lists(
    st.sampled_from(["linear", "batchnorm", "layernorm", "relu", "gelu", "softmax"]), min_size=1, max_size=4
).map(tuple)


def batches(number: int, seed: int = 1) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(16, WIDTH, generator=generator),
            torch.randint(0, CLASSES, (16,), generator=generator),
        )
        for _ in range(number)
    ]


def loss_of(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return functional.cross_entropy(model(batch[0]).float(), batch[1])


def sgd(model: nn.Module, lr: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-3)


def values(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)
