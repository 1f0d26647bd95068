"""Small models for the tests of captured graphs; a factory each, as users write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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


class Keywords(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs, mask: torch.Tensor):
        return self.function(*inputs, mask=mask)


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


class Reassigns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("hidden", torch.zeros(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.hidden = torch.tanh(self.linear(x) + self.hidden)
        return self.hidden


class BatchStatistics(nn.Module):
    """BatchNorm that stays in training mode when the model is evaluated."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.norm.train()
        return self.norm(x).relu()


class CachedKeys(nn.Module):
    """Attention of one token over the keys and values of those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)
        self.register_buffer("keys", torch.zeros(1, 2, 16, 4))
        self.register_buffer("values", torch.zeros(1, 2, 16, 4))
        self.register_buffer("length", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(x).view(1, 1, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        place = self.length.view(1)
        self.keys.index_copy_(2, place, key)
        self.values.index_copy_(2, place, value)
        mask = (torch.arange(16) <= self.length).view(1, 1, 1, 16)
        self.length.add_(1)
        made = nn.functional.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=mask)
        return made.transpose(1, 2).reshape(1, 1, 8)


class Swaps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("first", torch.ones(3))
        self.register_buffer("second", torch.full((3,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        old = self.first.clone()
        self.first.copy_(self.second)
        self.second.copy_(old)
        return old * x


class Pair(NamedTuple):
    first: torch.Tensor
    count: int


@dataclass
class Answer:
    scores: torch.Tensor
    pair: Pair
    missing: torch.Tensor | None = None


class Nests(nn.Module):
    def forward(self, given: dict[str, Pair]) -> Answer:
        x = given["x"].first
        return Answer(scores=x.softmax(-1), pair=Pair(x + 1, given["x"].count + 1))


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


def writes():
    return Writes(), (torch.ones(3),)


def reassigns():
    torch.manual_seed(0)
    return Reassigns(), (torch.randn(1, 4),)


def batch_statistics():
    torch.manual_seed(0)
    return BatchStatistics(), (torch.randn(4, 3, 5, 5),)


def cached_keys():
    torch.manual_seed(0)
    return CachedKeys(), (torch.randn(1, 1, 8),)


def swaps():
    return Swaps(), (torch.ones(3),)


def nests():
    torch.manual_seed(0)
    return Nests(), ({"x": Pair(torch.randn(2, 3), 2)},)


def not_a_number():
    return Function(lambda x: (x.sqrt(), x * float("nan"))), torch.randn(64, generator=torch.Generator().manual_seed(0))


def raises():
    raise ZeroDivisionError("of no use")


def leaves():
    raise SystemExit(4)


def nothing():
    return None


def unusual():
    return Residual(), torch.randn(1), {}, "more"


def unwrapped():
    return nn.Bilinear(4, 4, 3), torch.randn(2, 4), torch.randn(2, 4)


number = 3
