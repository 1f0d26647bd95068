"""Small models for the tests of captured graphs; a factory each, as users write them."""

from __future__ import annotations

import torch
from torch import nn


class Residual(nn.Module):
    """Convolutions, BatchNorm with other than trivial statistics, in-place activations and additions."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, 2, 1)
        self.convolution = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)
        self.relu, self.dropout = nn.ReLU(inplace=True), nn.Dropout(0.5)
        self.linear = nn.Linear(channels, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = self.relu(self.norm(self.convolution(x)))
        y += x
        return self.linear(self.dropout(torch.flatten(nn.functional.adaptive_avg_pool2d(self.relu(y), 1), 1)))


class Tied(nn.Module):
    """Token and position embeddings, attention, an output layer that shares the embedding's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, 16), nn.Embedding(32, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor, mask: torch.Tensor | None = None) -> dict[str, torch.Tensor | None]:
        hidden = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        hidden = self.layer(hidden)
        if mask is not None:
            hidden = hidden * mask[..., None]
        return {"logits": self.head(hidden), "first": hidden[:, 0], "none": None}


class Chooses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x).relu()
        if hidden.sum() > -1:
            hidden = self.second(hidden)
        return hidden * 2


class Function(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class Counts(nn.Module):
    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


class Writes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state.add_(x)
        return self.state * 2


def residual():
    torch.manual_seed(0)
    return Residual(), torch.randn(2, 3, 8, 8)


def alone():
    return Residual()


def tied():
    torch.manual_seed(0)
    return Tied(), (torch.randint(0, 50, (2, 6)),), {"mask": torch.ones(2, 6)}


def chooses():
    torch.manual_seed(0)
    return Chooses(), torch.randn(2, 4)


def random():
    return Function(lambda x: x + torch.rand_like(x)), torch.randn(3)


def counts():
    return Counts(), torch.randn(3)


def not_a_number():
    return Function(lambda x: (x.sqrt(), x * float("nan"))), torch.randn(64, generator=torch.Generator().manual_seed(0))


def raises():
    raise ZeroDivisionError("of no use")


def nothing():
    return None


def unusual():
    return Residual(), torch.randn(1), {}, "more"


number = 3
