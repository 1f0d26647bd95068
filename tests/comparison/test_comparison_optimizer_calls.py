"""Calls of optimizers are paired by the parameters that they update; a divergence after one is traced to it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from jumar.capture import record
from jumar.comparison import Comparison, compare

pytestmark = pytest.mark.slow


def two_optimizers(folder: Path, every: int = 1) -> Path:
    """Record a training whose second optimizer steps in every `every`-th iteration."""
    torch.manual_seed(0)
    net, scale, inputs = nn.Linear(4, 3), torch.zeros(1, requires_grad=True), torch.randn(6, 5, 4)
    main, other = torch.optim.SGD(net.parameters(), lr=0.05), torch.optim.Adam([scale], lr=1e-2)
    with record(str(folder), model=net):
        for number, x in enumerate(inputs):
            main.zero_grad(), other.zero_grad()
            (net(x).square().mean() * scale.exp()).backward()
            main.step()
            if number % every == 0:
                other.step()
    return folder


def with_closure(folder: Path, *, factor: float = 1.0, **settings: float) -> Path:
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)), torch.randn(8, 3)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4, line_search_fn="strong_wolfe", **settings)  # type: ignore[arg-type]  # settings are numbers

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (net(x) * factor - 1.0).square().mean()
        loss.backward()
        return loss

    with record(str(folder), model=net):
        for _ in range(2):
            optimizer.step(closure)
    return folder


def first_of(comparison: Comparison) -> tuple[str, str, list[str]]:
    first = comparison.first_divergence
    assert first is not None, comparison.headline
    return first.kind, first.name, [argument.name for argument in first.arguments]


@pytest.mark.parametrize("turned", [False, True])
def test_an_update_that_one_side_alone_makes_is_named(tmp_path, turned) -> None:
    sides = [two_optimizers(tmp_path / "a"), two_optimizers(tmp_path / "b", every=2)]
    found = compare(*(reversed(sides) if turned else sides))
    assert "JM313" not in {finding.code for finding in found.findings}, "optimizers of other parameters were compared"
    assert first_of(found) == ("optimizer", "SGD", [])


@pytest.mark.parametrize(("name", "value"), [("lr", 0.5), ("history_size", 1)])
def test_settings_of_an_optimizer_with_a_closure_are_named_first(tmp_path, name, value) -> None:
    found = compare(with_closure(tmp_path / "a"), with_closure(tmp_path / "b", **{name: value}))
    assert first_of(found) == ("optimizer", "LBFGS", [name])


def test_an_operator_that_diverges_before_the_optimizer_has_begun_is_named(tmp_path) -> None:
    found = compare(with_closure(tmp_path / "a"), with_closure(tmp_path / "b", factor=1.1, lr=0.5))
    assert first_of(found)[:2] == ("op", "aten::mul.Tensor")


def perturbed(folder: Path, *, undone: bool = True, scaled_at: int | None = None) -> Path:
    """Record a sharpness-aware training, which moves the parameters for a second gradient and back."""
    torch.manual_seed(0)
    net, inputs = nn.Linear(4, 3), torch.randn(4, 6, 4)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    with record(str(folder), model=net):
        for number, x in enumerate(inputs):
            net(x).square().mean().backward()
            moves = [p.grad * 0.1 for p in net.parameters() if p.grad is not None]
            with torch.no_grad():
                torch._foreach_add_(list(net.parameters()), moves)
            optimizer.zero_grad()
            net(x).square().mean().backward()
            with torch.no_grad():
                for p, move in zip(net.parameters(), moves, strict=True):
                    if undone:
                        p.sub_(move)
                    if number == scaled_at:
                        optimizer.state[p]["exp_avg_sq"].mul_(1.5)
            optimizer.step()
            optimizer.zero_grad()
    return folder


@pytest.mark.parametrize("turned", [False, True])
def test_a_write_to_a_parameter_that_one_side_leaves_out_is_named_and_not_the_optimizer(tmp_path, turned) -> None:
    sides = [perturbed(tmp_path / "a"), perturbed(tmp_path / "b", undone=False)]
    found = compare(*(reversed(sides) if turned else sides))
    assert first_of(found) == ("op", "aten::sub_.Tensor", [])


def test_a_state_that_was_changed_before_an_update_in_detail_is_in_the_headline(tmp_path) -> None:
    found = compare(perturbed(tmp_path / "a"), perturbed(tmp_path / "b", scaled_at=2))
    assert found.status == "diverge"
    assert found.headline.startswith("The runs drift apart from step 2 on: exp_avg_sq of Adam")


def queued(folder: Path, *, other: bool = False) -> Path:
    """Record a training with a queue of results, which is written after the update and read in the next step."""
    torch.manual_seed(0)
    net, inputs = nn.Linear(4, 4), torch.randn(4, 3, 4)
    optimizer, queue = torch.optim.SGD(net.parameters(), lr=0.1), torch.randn(6, 4)
    with record(str(folder), model=net):
        for number, x in enumerate(inputs):
            out = net(x)
            keys = (out.detach() * 0.5).tanh()
            loss = (out @ queue.T).square().mean() + keys.sum() * 0.0
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            queue[:3].copy_(out.detach() if other and number == 1 else keys)
    return folder


def test_another_tensor_that_is_carried_over_the_end_of_a_step_is_no_other_data(tmp_path) -> None:
    found = compare(queued(tmp_path / "a"), queued(tmp_path / "b", other=True))
    first = found.first_divergence
    assert first is not None, found.headline
    assert (found.status, first.step, first.name) == ("diverge", 2, "aten::copy_")
    assert "aten::tanh" in first.note
    assert "aten::addmm" in first.note
