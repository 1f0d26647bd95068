"""A forward pass that the backward pass runs again (checkpointing of activations) is no difference of two runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from jumar.capture import record
from jumar.comparison import compare
from jumar.recording import Recording

pytestmark = pytest.mark.slow

PLAIN, AGAIN, REENTRANT = None, False, True
"""How activations are checkpointed: not at all, else `use_reentrant`."""


class Block(nn.Module):
    """Calls one dropout twice, so that its masks are told apart by their values alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.drop = nn.Linear(6, 6), nn.Linear(6, 6), nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.drop(self.first(x).tanh())
        return x + self.drop(self.second(x).tanh())


class Net(nn.Module):
    def __init__(self, way: bool | None, *, keeps_state: bool = True) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(6, 6), nn.Linear(6, 4)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.way, self.keeps_state = way, keeps_state

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x) if self.way is None else self.again(block, x)
        return self.head(x)

    def again(self, block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        out = checkpoint(block, x, use_reentrant=bool(self.way), preserve_rng_state=self.keeps_state)
        assert isinstance(out, torch.Tensor)
        return out


def train(folder: Path, way: bool | None, **options: bool) -> Path:
    torch.manual_seed(0)
    net, inputs = Net(way, **options), torch.randn(2, 8, 6)
    updates = torch.optim.SGD(net.parameters(), lr=0.1)
    with record(str(folder), model=net):
        for x in inputs:
            updates.zero_grad()
            functional.cross_entropy(net(x), torch.arange(8) % 4).backward()
            updates.step()
    return folder


@pytest.mark.parametrize(
    ("reference", "target"), [(PLAIN, AGAIN), (REENTRANT, PLAIN), (AGAIN, REENTRANT), (AGAIN, AGAIN)]
)
def test_a_recomputation_draws_the_same_numbers_again(tmp_path, reference, target) -> None:
    found = compare(train(tmp_path / "a", reference), train(tmp_path / "b", target))
    assert (found.status, list(found.differences)) == ("agree", []), found.headline


def test_a_recomputation_that_draws_other_numbers_does_not_agree(tmp_path) -> None:
    found = compare(train(tmp_path / "a", PLAIN), train(tmp_path / "b", AGAIN, keeps_state=False))
    assert found.status != "agree"


def test_a_backward_inside_a_backward_is_no_loss_of_the_step(tmp_path) -> None:
    plain, reentrant = (Recording.open(train(tmp_path / str(way), way)) for way in (PLAIN, REENTRANT))
    assert [loss for _, loss in reentrant.losses(0)] == pytest.approx([loss for _, loss in plain.losses(0)])
    histories = plain.history(), reentrant.history()
    assert None not in histories
    assert [len(history.read(0).losses) for history in histories if history is not None] == [1, 1]
