"""Small models of many kinds, with example inputs and the axes that may stay open, for the tests of ONNX."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

Axes = dict[str, dict[int, str]]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        query, key, value = self.project(x).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return found.transpose(1, 2).reshape(batch, length, 8)


class Larger(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        by_two = functional.interpolate(x, scale_factor=2, mode="nearest")
        return by_two, functional.interpolate(x, size=(9, 7), mode="bilinear", align_corners=False)


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 6)
        self.last = nn.Linear(6, 3)

    def forward(self, tokens: torch.Tensor, *, weights: torch.Tensor) -> dict[str, torch.Tensor]:
        pooled = (self.words(tokens) * weights.unsqueeze(-1)).sum(1)
        return {"scores": self.last(pooled), "pooled": pooled}


class Triangle(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tril(x) + x.triu(1).unflatten(-1, (2, -1)).flatten(-2) * 2


def _normal() -> nn.Module:
    return nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6), nn.GELU(), nn.GELU(approximate="tanh"))


def models() -> dict[str, tuple[nn.Module, Any, Axes]]:
    """Return the models by name, with weights that do not change between calls."""
    torch.manual_seed(3)
    pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)]
    return {
        "convolution": (
            nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), *pooled),
            torch.randn(1, 3, 8, 8),
            {"input": {0: "batch", 2: "height"}},
        ),
        "lstm": (Recurrent(), torch.randn(2, 3, 4), {"x": {0: "batch", 1: "time"}}),
        "attention": (Attention(), torch.randn(2, 3, 8), {"x": {0: "batch", 1: "time"}}),
        "encoder": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.randn(2, 3, 8), {"src": {1: "time"}}),
        "normal": (_normal(), torch.randn(2, 6), {"input": {0: "batch"}}),
        "groups": (nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU(), nn.Hardswish()), torch.randn(2, 4, 3, 3), {}),
        "larger": (Larger(), torch.randn(2, 3, 4, 4), {"x": {0: "batch"}}),
        "embedding": (
            TwoInputs(),
            {"tokens": torch.randint(0, 10, (2, 5)), "weights": torch.rand(2, 5)},
            {"tokens": {0: "batch", 1: "time"}, "weights": {0: "batch", 1: "time"}},
        ),
        "triangle": (Triangle(), torch.randn(4, 4), {}),
    }
