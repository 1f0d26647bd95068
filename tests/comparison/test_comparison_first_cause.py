"""Which of several differences is the cause: other arguments, sizes and settings come before what follows from them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import jumar
from jumar.comparison import Comparison, compare


def compared(folder: Path, train: Callable[[str], None]) -> Comparison:
    """Record `train("reference")` and `train("target")` and compare them."""
    for side in ("reference", "target"):
        torch.manual_seed(0)
        with jumar.record(folder / side, values="stats"):
            train(side)
    return compare(folder / "reference", folder / "target")


def stepped(loss: torch.Tensor, *parameters: torch.Tensor) -> None:
    loss.backward()
    torch.optim.SGD(parameters, lr=0.1).step()


DRAWS: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "dropout": functional.dropout,
    "bernoulli_": lambda x, p: x * torch.empty_like(x).bernoulli_(p),
    "normal_": lambda x, p: x * torch.empty_like(x).normal_(p),
    "uniform_": lambda x, p: x * torch.empty_like(x).uniform_(p, 1.0),
    "exponential_": lambda x, p: x * torch.empty_like(x).exponential_(p),
}


@pytest.mark.parametrize("name", DRAWS)
def test_another_argument_of_a_random_operator_is_named_and_not_its_generator(tmp_path: Path, name: str) -> None:
    def train(side: str) -> None:
        weight = nn.Parameter(torch.ones(64))
        stepped(DRAWS[name](weight, 0.25 if side == "reference" else 0.5).sum(), weight)

    comparison = compared(tmp_path, train)
    assert comparison.first_divergence is not None, comparison.headline
    assert {argument.reference for argument in comparison.first_divergence.arguments} <= {0.25, 0.75}
    assert comparison.first_divergence.arguments


SIZES: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "aten::slice.Tensor": lambda x, n: x[:n],
    "aten::topk": lambda x, n: x.topk(n, 0).values,
    "aten::narrow": lambda x, n: x.narrow(0, 0, n),
    "aten::randn": lambda x, n: torch.randn(n, 4),
    "aten::split.Tensor": lambda x, n: x.split(n)[0],
}


@pytest.mark.parametrize("name", SIZES)
def test_the_call_that_makes_another_size_is_named(tmp_path: Path, name: str) -> None:
    data = torch.randn(64, 4)

    def train(side: str) -> None:
        weight = nn.Parameter(torch.ones(4, 3))
        rows = SIZES[name](data, 64 if side == "reference" else 61)
        stepped(torch.mm(rows * 2.0, weight).square().mean(), weight)

    first = compared(tmp_path, train).first_divergence
    assert first is not None
    assert first.name.split(".")[0] in {name.split(".", maxsplit=1)[0], "aten::slice"}
    assert any(61 in (a.target if isinstance(a.target, list) else [a.target]) for a in first.arguments)


def test_data_of_another_size_are_told_as_data_with_both_shapes(tmp_path: Path) -> None:
    numbers = [torch.ones(64, 4), torch.ones(61, 4)]

    def from_outside(side: str) -> None:
        weight = nn.Parameter(torch.ones(4, 3))
        stepped(torch.mm(numbers[side == "target"], weight).square().mean(), weight)

    finding = compared(tmp_path, from_outside).findings[0]
    assert finding.code == "JM302"
    assert "[64, 4] against [61, 4]" in finding.message


@pytest.mark.parametrize(("at", "setting"), [(0, "lr"), (1, "lr"), (1, "momentum"), (0, "weight_decay")])
def test_of_two_optimizers_the_one_with_other_settings_is_named(tmp_path: Path, at: int, setting: str) -> None:
    """The second one works after the step's end, so that the next step's calls are the first to read what it wrote."""

    def train(side: str) -> None:
        makers = [nn.Linear(3, 3), nn.Linear(3, 3)]
        settings = [{"lr": 0.1, "momentum": 0.5, "weight_decay": 0.1} for _ in makers]
        if side == "target":
            settings[at][setting] *= 1.5
        optimizers = [torch.optim.SGD(m.parameters(), **s) for m, s in zip(makers, settings, strict=True)]
        x = torch.ones(2, 3)
        for _ in range(4):
            for number, optimizer in enumerate(optimizers):
                optimizer.zero_grad()
                makers[number](makers[1 - number](x)).square().sum().backward()
                optimizer.step()

    first = compared(tmp_path, train).first_divergence
    assert first is not None
    assert (first.kind, [argument.name for argument in first.arguments]) == ("optimizer", [setting])


@pytest.mark.parametrize("form", ["lists", "tensors"])
def test_what_nothing_defines_in_a_result_is_no_divergence(tmp_path: Path, form: str) -> None:
    """`_ctc_loss` leaves the padding of its second result as it was in memory."""
    scores = torch.randn(12, 4, 6).log_softmax(-1)
    targets = torch.randint(1, 6, (4, 4))
    lengths = [12, 12, 10, 9], [4, 3, 4, 2]

    def train(side: str) -> None:
        weight = nn.Parameter(torch.ones(6))
        of = [torch.tensor(one) for one in lengths] if form == "tensors" else lengths
        stepped(functional.ctc_loss((scores * weight).log_softmax(-1), targets, *of), weight)

    comparison = compared(tmp_path, train)
    assert comparison.status == "agree", comparison.headline


@pytest.mark.parametrize("draws", [False, True])
def test_pythons_generator_is_named_only_where_the_program_draws_from_it(tmp_path: Path, draws: bool) -> None:
    numbers = {"reference": torch.ones(4, 4), "target": torch.full((4, 4), 3.0)}

    def train(side: str) -> None:
        random.seed(side)
        weight = nn.Parameter(torch.ones(4, 3))
        for _ in range(3):
            stepped(torch.mm(numbers[side], weight).square().mean(), weight)
            if draws:
                random.random()

    finding = compared(tmp_path, train).findings[0]
    assert (finding.code, "python" in finding.message) == ("JM302", draws)
