"""Small models, and a bank with plans for them, for the tests of the back end and of artefacts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import nn

from jumar.tune.bank.store import Bank
from jumar.tune.graph import Graph
from jumar.tune.model.gate import gain_of
from jumar.tune.model.machine import this_machine
from jumar.tune.plan import Plan, Region

EAGER = Plan(regions=(Region(nodes=(), engine="eager"),))


class Net(nn.Module):
    """Two inputs that are used in another order than they are given; a dictionary of results; in-place inside."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm, self.linear = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Linear(6, 4)

    def forward(self, shift: torch.Tensor, image: torch.Tensor) -> dict[str, torch.Tensor]:
        features = self.norm(self.convolution(image)).relu_().mean((2, 3))
        return {"scores": self.linear(features).softmax(-1) + shift, "features": features}


def net_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(4, generator=generator), torch.randn(2, 3, 8, 8, generator=generator)


def fill_bank(folder: Path, graphs: Iterable[Graph], plan: Plan = EAGER) -> Bank:
    bank = Bank.open(folder)
    for graph in graphs:
        bank.accept(
            graph, this_machine(), plan.policy(), incumbent=(), gain=gain_of([2.0] * 30, [1.0] * 30, 1),
            min_gain=0.02, tried=[],
        )  # fmt: skip
    return bank
