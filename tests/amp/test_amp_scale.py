"""The loss scale of `jumar.amp` step by step, against a reference written by hand and `torch.amp.GradScaler`."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from amp_models import batches, loss_of, network, same, sgd, values
from hypothesis import given
from hypothesis import strategies as st

from jumar import amp
from jumar.amp.scale.scaler import LossScaler
from jumar.base.errors import InputError

ROUNDS = st.lists(st.booleans(), max_size=40)
FINITE, INFINITE = [torch.ones(3)], [torch.tensor([1.0, float("nan")])]


@given(
    overflows=ROUNDS,
    first=st.sampled_from([1.0, 2.0**16, 2.0**24]),
    factor=st.sampled_from([2.0, 4.0, 1.5]),
    window=st.integers(1, 5),
    least=st.sampled_from([None, 1.0, 1024.0]),
)
def test_a_dynamic_scale_follows_the_rule(
    overflows: list[bool], first: float, factor: float, window: int, least: float | None
) -> None:
    how = amp.DynamicLossScale(init_loss_scale=first, scale_factor=factor, scale_window=window, min_loss_scale=least)
    scaler, scale, quiet = LossScaler(how), first, 0
    for overflow in overflows:
        scaler.clear_overflow_state()
        scaler.look_at(INFINITE if overflow else FINITE)
        if overflow:
            scale, quiet = max(scale / factor, least or 0.0), 0
        else:
            quiet += 1
            if quiet == window:
                scale, quiet = min(scale * factor, 2.0**24), 0
        assert scaler.update_scale() is overflow
        assert scaler.state_dict() == {"loss_scale": scale, "unskipped": quiet}


@given(overflows=ROUNDS, window=st.integers(1, 4))
def test_a_dynamic_scale_is_that_of_grad_scaler(overflows: list[bool], window: int) -> None:
    how = amp.DynamicLossScale(scale_window=window, max_loss_scale=2.0**100)
    scaler, reference = LossScaler(how), torch.amp.GradScaler("cpu", growth_interval=window)
    parameter = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    for overflow in overflows:
        parameter.grad = torch.tensor([float("inf") if overflow else 1.0])
        reference.scale(torch.ones(()))
        reference.step(optimizer)
        reference.update()
        scaler.look_at([parameter.grad])
        scaler.update_scale()
        assert scaler.loss_scale() == reference.get_scale()
        assert scaler.grad_scaler_state() == reference.state_dict()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: amp.DynamicLossScale(scale_factor=1.0), "scale_factor must be above 1; got 1.0"),
        (lambda: amp.DynamicLossScale(scale_window=0), "at least 1; got 0"),
        (lambda: amp.DynamicLossScale(init_loss_scale=float("inf")), "init_loss_scale must be above 0; got inf"),
        (lambda: amp.DynamicLossScale(min_loss_scale=2.0**30), "min_loss_scale must be from 0 to max_loss_scale"),
        (lambda: amp.FixedLossScale(loss_scale=0), "loss_scale must be above 0; got 0"),
    ],
)
def test_a_scale_that_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def prepared(**options: Any) -> tuple[Any, Any]:
    model = network()
    chosen: dict[str, Any] = {"opt_level": "O2", "half_type": torch.float16, "verbosity": 0} | options
    return amp.initialize(model, sgd(model), **chosen)


def step(model: Any, optimizer: Any, factor: float = 1.0, number: int = 0, **options: Any) -> None:
    optimizer.zero_grad()
    with amp.scale_loss(loss_of(model, batches(number + 1)[number]) * factor, optimizer, **options) as scaled:
        scaled.backward()
    optimizer.step()


@pytest.mark.parametrize("combine", [False, True])
@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
def test_a_skipped_step_changes_nothing_and_names_its_origin(
    level: str, combine: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    model, optimizer = prepared(opt_level=level, loss_scale="dynamic", combine_grad=combine, verbosity=1)
    step(model, optimizer)
    before = [parameter.detach().clone() for parameter in amp.master_params(optimizer)]
    momenta = copy.deepcopy(optimizer.state_dict()["state"])
    step(model, optimizer, factor=1e9)
    assert all(torch.equal(a, b) for a, b in zip(before, amp.master_params(optimizer), strict=True))
    for number, state in optimizer.state_dict()["state"].items():
        assert torch.equal(state["momentum_buffer"], momenta[number]["momentum_buffer"])
    told = capsys.readouterr().out
    assert "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0" in told
    (skipped,) = amp.skipped_steps()
    assert (skipped.step, skipped.loss_scale, skipped.next_loss_scale) == (1, 65536.0, 32768.0)
    assert skipped.origin == "4.bias"
    assert "8 of 8 gradients have NaN or Inf; the model's last parameter among them is 4.bias." in told
    step(model, optimizer)
    assert not all(torch.equal(a, b) for a, b in zip(before, amp.master_params(optimizer), strict=True))


def test_only_the_gradient_that_is_not_finite_is_named() -> None:
    model, optimizer = prepared(opt_level="O1", loss_scale=amp.FixedLossScale(loss_scale=8.0))
    optimizer.zero_grad()
    with amp.scale_loss(loss_of(model, batches(1)[0]), optimizer) as scaled:
        scaled.backward()
        model[3].weight.grad[0, 0] = float("inf")
    assert [skipped.parameters for skipped in amp.skipped_steps()] == [("3.weight",)]
    assert "1 of 8 gradients" in str(amp.skipped_steps()[0])


def test_steps_that_go_on_being_skipped_are_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    model, optimizer = prepared(verbosity=1)
    for _ in range(12):
        step(model, optimizer, factor=float("nan"))
    assert capsys.readouterr().out.count("8 steps in a row were skipped, so the scale is not the cause") == 1
    assert len(amp.skipped_steps()) == 12


def test_a_plain_number_never_skips_and_a_fixed_scale_can() -> None:
    for scale, finite in ((128.0, False), (amp.FixedLossScale(), True)):
        model, optimizer = prepared(loss_scale=scale)
        step(model, optimizer, factor=float("nan"))
        assert bool(all(p.isfinite().all() for p in amp.master_params(optimizer))) is finite
        assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 128.0


def test_the_limits_of_initialize_hold() -> None:
    model, optimizer = prepared(min_loss_scale=2.0**15, max_loss_scale=2.0**15)
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 2.0**15
    step(model, optimizer, factor=float("inf"))
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 2.0**15


def test_a_check_that_is_put_off_counts_at_the_next_one() -> None:
    model, optimizer = prepared(opt_level="O1")
    before = values(model)
    with amp.scale_loss(loss_of(model, batches(1)[0]) * 1e9, optimizer, delay_overflow_check=True) as scaled:
        scaled.backward()
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 65536.0
    with amp.scale_loss(loss_of(model, batches(1)[0]), optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 32768.0
    assert same(
        {k: v for k, v in values(model).items() if "weight" in k}, {k: v for k, v in before.items() if "weight" in k}
    )


def test_a_scale_goes_to_grad_scaler_and_back() -> None:
    model, optimizer = prepared()
    step(model, optimizer, factor=1e9)
    step(model, optimizer)
    reference = torch.amp.GradScaler("cpu")
    reference.load_state_dict(amp.grad_scaler_state())
    reference.scale(torch.ones(()))
    assert (reference.get_scale(), reference._get_growth_tracker()) == (32768.0, 1)
    prepared()
    amp.load_state_dict(reference.state_dict())
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 32768.0, "unskipped": 1}}


def test_grad_scaler_works_on_a_prepared_model() -> None:
    """A script may scale by itself: amp casts, the scaler scales."""
    results = []
    for by_amp in (True, False):
        model = network()
        model, optimizer = (
            amp.initialize(model, sgd(model) if by_amp else None, opt_level="O1", half_type=torch.float16, verbosity=0)
            if by_amp
            else (amp.initialize(model, opt_level="O1", half_type=torch.float16, verbosity=0), sgd(model))
        )
        scaler = torch.amp.GradScaler("cpu")
        for batch in batches(3):
            optimizer.zero_grad()
            if by_amp:
                with amp.scale_loss(loss_of(model, batch), optimizer) as scaled:
                    scaled.backward()
                optimizer.step()
            else:
                scaler.scale(loss_of(model, batch)).backward()
                scaler.step(optimizer)
                scaler.update()
                torch.clear_autocast_cache()
        results.append(values(model))
    assert same(*results)


def test_several_losses_have_scales_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    """A generator and a discriminator: two models, two optimizers, three losses."""
    g, d = network(seed=1), network(seed=2)
    (g, d), (step_g, step_d) = amp.initialize(
        [g, d], [sgd(g), sgd(d)], opt_level="O2", half_type=torch.float16, num_losses=3, verbosity=1
    )
    batch = batches(1)[0]
    before = values(g), values(d)
    step_d.zero_grad()
    for loss_id, factor in ((0, 1.0), (1, 1e9)):
        with amp.scale_loss(loss_of(d, batch) * factor, step_d, loss_id=loss_id) as scaled:
            scaled.backward()
    step_d.step()
    step_g.zero_grad()
    with amp.scale_loss(loss_of(g, batch), step_g, loss_id=2) as scaled:
        scaled.backward()
    step_g.step()
    scales = [amp.state_dict()[f"loss_scaler{number}"]["loss_scale"] for number in range(3)]
    assert scales == [65536.0, 32768.0, 65536.0]
    assert torch.equal(before[1]["0.weight"], d.state_dict()["0.weight"])
    assert not torch.equal(before[0]["0.weight"], g.state_dict()["0.weight"])
    assert amp.skipped_steps()[0].origin == "model1.4.bias"
    amp.load_state_dict({"loss_scaler0": {"loss_scale": 4.0, "unskipped": 3}})
    assert "state_dict contains 1 entries, while 3 loss_scalers" in capsys.readouterr().out


def test_a_saturating_chip_says_so_by_its_flag() -> None:
    from jumar.amp.hooks import _DEVICES, DeviceHooks, register_device

    class Flag:
        up = False

        def saturates(self) -> bool:
            return True

        def clear(self) -> None:
            self.up = False

        def is_up(self) -> bool:
            return self.up

    flag = Flag()
    register_device("cpu", DeviceHooks(flag=flag))
    try:
        model, optimizer = prepared()
        with amp.scale_loss(loss_of(model, batches(1)[0]), optimizer) as scaled:
            scaled.backward()
            flag.up = True
        assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 32768.0
        assert amp.skipped_steps()[0].origin == ""
        assert "a chip's flag or another rank says so" in str(amp.skipped_steps()[0])
        step(model, optimizer)
        step(model, optimizer)
        assert amp.state_dict()["loss_scaler0"] == {"loss_scale": 32768.0, "unskipped": 2}
    finally:
        del _DEVICES["cpu"]
