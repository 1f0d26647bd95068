from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from jumar.capture import record
from jumar.capture.session.session import Session
from jumar.recording import Recording


class ConvNet(nn.Module):
    """A small network with an in-place activation, running statistics and a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(4)
        self.act = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(inplace=True))
        self.fc = nn.Linear(4 * 36, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.act(self.bn1(self.conv1(images)))
        hidden = hidden + self.layer1(hidden)
        logits: torch.Tensor = self.fc(hidden.flatten(1))
        return logits


def train(
    num_steps: int = 3,
    *,
    model: nn.Module | None = None,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
    accumulate: int = 1,
    device: str = "cpu",
) -> list[float]:
    """Train a small network and return the loss of every backward pass."""
    torch.manual_seed(0)
    model = (model or ConvNet()).to(device)
    updates = optimizer(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss()
    losses = []
    for _ in range(num_steps):
        updates.zero_grad()
        for _ in range(accumulate):
            images, labels = torch.randn(2, 3, 6, 6).to(device), torch.randint(0, 5, (2,)).to(device)
            loss = criterion(model(images), labels)
            loss.backward()
            losses.append(loss.item())
        updates.step()
    return losses


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()  # a recording tells what was compiled before, by other tests too
    yield
    torch.set_num_threads(threads)
    assert Session.current is None, "the test left a recording under way"


@pytest.fixture
def training() -> Callable[..., list[float]]:
    return train


@pytest.fixture
def conv_net() -> type[nn.Module]:
    return ConvNet


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Recording]:
    """Record a function and return the recording."""

    def run(function: Callable[[], Any], **options: Any) -> Recording:
        path = tmp_path / f"recording-{len(list(tmp_path.iterdir()))}"
        with record(path, **options):
            function()
        return Recording.open(path)

    return run
