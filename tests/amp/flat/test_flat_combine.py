"""`combine` makes an optimizer step over flat buffers in place; `flat_step` unscales, checks, clips and updates."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from jumar.amp import optimizers as flat
from jumar.amp.flat import FlatBuffers, buffers_of, combine, flat_step
from jumar.amp.flat.layout import LARGE
from jumar.base.errors import InputError

KINDS = [
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch.optim.Adam, {}),
    (torch.optim.AdamW, {}),
    (torch.optim.Adadelta, {}),
    (torch.optim.RMSprop, {}),
]
ALL = [*[(getattr(flat, kind.__name__), options) for kind, options in KINDS], (flat.RMSpropTF, {}), (flat.Lamb, {}),
       (flat.AdamP, {}), (flat.BertAdam, {"lr": 0.01})]  # fmt: skip


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, LARGE // 8), nn.Tanh(), nn.Linear(LARGE // 8, 2))


def backward(model: nn.Module, step: int, scale: float = 1.0) -> None:
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(step))
    (model(x).pow(2).mean() * scale).backward()


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()


def assert_same(one: nn.Module, other: nn.Module, tolerance: float = 1e-5) -> None:
    for own, expected in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(own, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_an_optimizer_is_combined_in_the_middle_of_training(kind, options):
    model, plain = network(), network()
    optimizer, other = kind(model.parameters(), **options), kind(plain.parameters(), **options)
    train(model, optimizer, range(3))
    combined = combine(optimizer)
    assert combined.optimizer is optimizer
    assert isinstance(optimizer, kind)
    train(model, optimizer, range(3, 6))
    train(plain, other, range(6))
    assert_same(model, plain)


def test_hooks_and_a_scheduler_made_before_go_on():
    model, plain = network(), network()
    called = []
    for one, is_flat in ((model, True), (plain, False)):
        optimizer = torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=8)
        optimizer.register_step_post_hook(lambda *_, mark=is_flat: called.append(mark))
        if is_flat:
            assert combine(optimizer).optimizer is optimizer
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for step in range(6):
                train(one, optimizer, range(step, step + 1))
                scheduler.step()
    assert_same(model, plain)
    assert called == [True] * 6 + [False] * 6


def test_a_scheduler_made_after_goes_on():
    model, plain = network(), network()
    for one, kind in ((model, flat.Adam), (plain, torch.optim.Adam)):
        optimizer = kind(one.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for step in range(5):
                train(one, optimizer, range(step, step + 1))
                scheduler.step()
    assert_same(model, plain)


class Mine(torch.optim.AdamW):
    pass


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (torch.optim.NAdam, "NAdam has no flat form"),
        (Mine, "Mine has no flat form"),
        (lambda parameters: torch.optim.Adam(parameters, differentiable=True), "keeps the graph of every update"),
        (
            lambda _: torch.optim.SGD([torch.zeros(2, dtype=torch.complex64, requires_grad=True)], lr=1),
            "floating-point",
        ),
    ],
)
def test_what_cannot_be_combined_stays_and_the_reason_is_told(make, words):
    optimizer = make(network().parameters())
    kind = type(optimizer)
    combined = combine(optimizer)
    assert combined.optimizer is None
    assert words in combined.reason
    assert type(optimizer) is kind


def test_a_group_added_later_is_updated():
    model, plain = network(), network()
    for one, kind in ((model, flat.Adam), (plain, torch.optim.Adam)):
        optimizer = kind(one[0].parameters())
        train(one, optimizer, range(2))
        optimizer.add_param_group({"params": one[2:].parameters(), "lr": 0.01})
        train(one, optimizer, range(2, 5))
    assert_same(model, plain)


def test_a_group_that_cannot_be_flat_is_refused_and_not_kept():
    optimizer = flat.Adam(network().parameters())
    with pytest.raises(InputError, match="Adam cannot keep these parameters in flat buffers"):
        optimizer.add_param_group({"params": [torch.zeros(2, dtype=torch.complex64, requires_grad=True)]})
    assert len(optimizer.param_groups) == 1


def test_groups_of_interleaved_parameters_share_the_buffers_of_another_part():
    model, plain = network(), network()
    for one, kind in ((model, torch.optim.AdamW), (plain, torch.optim.AdamW)):
        parameters = list(one.parameters())
        groups = [{"params": parameters[0::2]}, {"params": parameters[1::2], "weight_decay": 0.0}]
        optimizer = kind(groups, weight_decay=0.1)
        if one is model:
            buffers = FlatBuffers(parameters)
            combine(optimizer, buffers)
            assert buffers_of(optimizer) is buffers
        train(one, optimizer, range(4))
    assert_same(model, plain)


def test_sparse_gradients_are_refused_and_nothing_is_updated():
    embedding, bias = nn.Embedding(4, 2, sparse=True), torch.ones(2, requires_grad=True)
    optimizer = flat.SGD([*embedding.parameters(), bias], lr=0.1)
    (embedding(torch.tensor([1])) + bias).sum().backward()
    with pytest.raises(InputError, match="sparse"):
        optimizer.step()
    assert bias.tolist() == [1, 1]


def test_a_closure_runs_with_gradients():
    parameter = torch.ones(2, requires_grad=True)
    optimizer = flat.SGD([parameter], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = parameter.sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2
    assert parameter.tolist() == [0.5, 0.5]


def test_a_model_frozen_and_thawed_during_training():
    model, plain = network(), network()
    for one, kind in ((model, flat.Adam), (plain, torch.optim.Adam)):
        optimizer = kind(one.parameters())
        for step in range(6):
            one[0].requires_grad_(step % 3 != 1)
            train(one, optimizer, range(step, step + 1))
    assert_same(model, plain)


def test_a_model_that_becomes_double_in_the_middle():
    model, plain = network(), network()
    for one, kind in ((model, flat.SGD), (plain, torch.optim.SGD)):
        optimizer = kind(one.parameters(), lr=0.1)
        train(one, optimizer, range(2))
        one.double()
        for step in range(2):
            optimizer.zero_grad()
            one(torch.ones(2, 6, dtype=torch.float64) * step).sum().backward()
            optimizer.step()
    assert_same(model, plain)


@pytest.mark.slow
def test_a_compiled_model_trains_as_without():
    model, plain = network(), network()
    optimizer, other = flat.AdamW(model.parameters()), torch.optim.AdamW(plain.parameters())
    compiled = torch.compile(model, backend="aot_eager")
    train(compiled, optimizer, range(4))
    train(plain, other, range(4))
    assert_same(model, plain)


# flat_step -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_norm", [None, 0.05, 1e6])
@pytest.mark.parametrize(("kind", "options"), ALL)
def test_a_flat_step_equals_unscaling_clipping_and_stepping(kind, options, max_norm):
    model, plain = network(), network()
    optimizer, other = kind(model.parameters(), **options), kind(plain.parameters(), **options)
    for step in range(4):
        optimizer.zero_grad()
        backward(model, step, 1024.0)
        outcome = flat_step(optimizer, inverse_scale=1 / 1024, max_norm=max_norm)
        other.zero_grad()
        backward(plain, step)
        if max_norm is not None:
            norm = nn.utils.clip_grad_norm_(plain.parameters(), max_norm)
            assert outcome.norm == pytest.approx(norm.item(), rel=1e-4)
        other.step()
        assert not outcome.found_inf
        for own, expected in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(own.grad, expected.grad, rtol=1e-4, atol=1e-7)
    assert_same(model, plain, 1e-4)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize(("kind", "options"), ALL)
def test_nothing_is_updated_when_a_gradient_is_not_finite(kind, options, place, bad):
    model = network()
    optimizer = kind(model.parameters(), **options)
    train(model, optimizer, range(1))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    states = {
        key: {name: value.clone() for name, value in state.items()}
        for key, state in optimizer.state_dict()["state"].items()
    }
    optimizer.zero_grad()
    backward(model, 1)
    model[place].weight.grad[0, 0] = bad
    assert flat_step(optimizer, inverse_scale=0.5, max_norm=1.0).found_inf
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))
    for key, state in optimizer.state_dict()["state"].items():
        assert all(torch.equal(value, states[key][name]) for name, value in state.items())


def test_gradients_whose_squares_overflow_are_finite():
    parameter = torch.ones(3, requires_grad=True)
    optimizer = flat.SGD([parameter], lr=1.0)
    parameter.grad = torch.full((3,), 1e30)
    outcome = flat_step(optimizer, inverse_scale=1e-30, max_norm=10.0)
    assert not outcome.found_inf
    assert outcome.norm == pytest.approx(math.sqrt(3))
    assert parameter.tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)


def test_flat_step_takes_combined_optimizers_only():
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    with pytest.raises(InputError, match="combine"):
        flat_step(optimizer)


@pytest.mark.parametrize("fused", [None, True])
def test_a_grad_scaler_works_as_with_torch_optim(fused):
    model, plain = network(), network()
    for one, kind in ((model, flat.AdamW), (plain, torch.optim.AdamW)):
        optimizer = kind(one.parameters(), fused=fused if one is model else None)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
        for step in range(5):
            optimizer.zero_grad()
            x = torch.randn(4, 6, generator=torch.Generator().manual_seed(step))
            scaler.scale(one(x).pow(2).mean() * (math.inf if step == 2 else 1.0)).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(one.parameters(), 0.1)
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 2.0**11
    assert_same(model, plain)


def test_gradients_of_higher_order_are_taken():
    model, plain = network(), network()
    for one, kind in ((model, flat.SGD), (plain, torch.optim.SGD)):
        optimizer = kind(one.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            x = torch.randn(4, 6, generator=torch.Generator().manual_seed(step))
            loss: Any = one(x).pow(2).mean()
            first = torch.autograd.grad(loss, list(one.parameters()), create_graph=True)
            (loss + sum(gradient.pow(2).sum() for gradient in first)).backward()
            optimizer.step()
    assert_same(model, plain)


def test_a_profiler_sees_the_step():
    model = network()
    optimizer = flat.AdamW(model.parameters())
    train(model, optimizer, range(1))
    with torch.profiler.profile() as profile:
        train(model, optimizer, range(1, 2))
    assert "Optimizer.step#AdamW.step" in {event.key for event in profile.key_averages()}


def test_hooks_for_all_optimizers_are_called():
    called = []
    handle = register_optimizer_step_pre_hook(lambda *_: called.append("before"))
    try:
        model = network()
        train(model, flat.AdamW(model.parameters()), range(2))
    finally:
        handle.remove()
    assert called == ["before"] * 2
