"""Attention that scales its factors against attention that scales the product: one calculation, in another order."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from jumar.capture import record
from jumar.comparison import compare
from jumar.recording import Recording


class Attention(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.how == "factors":
            scores = (q * 0.5) @ (k * 0.5).transpose(1, 2)
        else:
            scores = (q @ k.transpose(1, 2)) * (0.25 if self.how == "product" else 0.26)
        return self.out(torch.softmax(scores, -1) @ v)


def trained(folder: Path, how: str) -> Recording:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), Attention(how), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    data = torch.Generator().manual_seed(1)
    with record(str(folder), model=model):
        for _ in range(2):
            inputs, targets = torch.randn(4, 6, 16, generator=data), torch.randint(0, 4, (24,), generator=data)
            loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return Recording.open(folder)


@pytest.fixture(autouse=True)
def _as_it_was():
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


@pytest.mark.parametrize("sides", [("factors", "product"), ("product", "factors")])
def test_scaling_the_factors_or_the_product_is_one_calculation(tmp_path, sides) -> None:
    comparison = compare(*(trained(tmp_path / side, side) for side in sides))
    assert comparison.status == "agree", comparison.headline


def test_another_scale_is_seen(tmp_path) -> None:
    comparison = compare(trained(tmp_path / "a", "factors"), trained(tmp_path / "b", "other"))
    assert comparison.status == "diverge"
    assert comparison.first_divergence.module_path == "1"
    assert comparison.first_divergence.phase == "forward"
