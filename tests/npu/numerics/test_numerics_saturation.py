"""Saturating arithmetic: by chip, by switch, and by operator."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import jumar
from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

MAX_HALF, MAX_FLOAT = 65504.0, float(np.finfo(np.float32).max)
SWITCHES = ("INF_NAN_MODE_ENABLE", "INF_NAN_MODE_FORCE_DISABLE")


@pytest.fixture(autouse=True)
def no_switches(monkeypatch):
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def first():
    with jumar.emulate("Ascend910A"):
        yield


def half(*values):
    return torch.tensor(values, dtype=torch.float16).npu()


def overflow():
    """The two examples of the vendor's page on INF_NAN_MODE_ENABLE, which gives both outcomes."""
    return [half(12.0).exp().item(), half(-1.0).sqrt().item()]


@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910ProB", "Ascend310P3"])
def test_the_first_generation_and_the_inference_chips_saturate(soc):
    with jumar.emulate(soc):
        assert overflow() == [MAX_HALF, 0.0]


@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend910_9391", "Ascend950"])
def test_later_chips_follow_ieee(soc):
    with jumar.emulate(soc):
        assert str(overflow()) == "[inf, nan]"


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({"INF_NAN_MODE_ENABLE": "1"}, "[inf, nan]"),
        ({"INF_NAN_MODE_FORCE_DISABLE": "0"}, "[inf, nan]"),
        ({"INF_NAN_MODE_FORCE_DISABLE": "1"}, "[65504.0, 0.0]"),
        ({"INF_NAN_MODE_FORCE_DISABLE": "1", "INF_NAN_MODE_ENABLE": "0"}, "[65504.0, 0.0]"),
    ],
)
def test_the_switches_of_a_later_chip(monkeypatch, switches, expected):
    for name, value in switches.items():
        monkeypatch.setenv(name, value)
    with jumar.emulate("Ascend910B3"):
        assert str(overflow()) == expected


def test_turning_ieee_off_without_force_is_refused(monkeypatch):
    monkeypatch.setenv("INF_NAN_MODE_ENABLE", "0")
    with jumar.emulate("Ascend910B1"), pytest.raises(RuntimeError, match="please export INF_NAN_MODE_FORCE_DISABLE=1"):
        half(1.0).exp()


@pytest.mark.parametrize("soc", ["Ascend950", "Ascend910A"])
def test_chips_of_one_mode_ignore_the_switches(monkeypatch, soc):
    monkeypatch.setenv("INF_NAN_MODE_ENABLE", "0")
    monkeypatch.setenv("INF_NAN_MODE_FORCE_DISABLE", "1")
    with jumar.emulate(soc):
        assert overflow() == (
            [MAX_HALF, 0.0] if soc == "Ascend910A" else [float("inf"), pytest.approx(0, nan_ok=True)]
        ) or (soc == "Ascend950" and str(overflow()) == "[inf, nan]")


def test_a_switch_is_0_or_1(monkeypatch):
    monkeypatch.setenv("INF_NAN_MODE_FORCE_DISABLE", "yes")
    with jumar.emulate("Ascend910B1"), pytest.raises(RuntimeError, match="INF_NAN_MODE_FORCE_DISABLE should be 0 or 1"):
        half(1.0).exp()


def test_exact_numerics_do_not_saturate():
    with jumar.emulate("Ascend910A", numerics="exact"):
        assert str(overflow()) == "[inf, nan]"


@given(st.lists(st.floats(width=16, allow_nan=False, allow_infinity=False), min_size=1, max_size=16))
def test_a_sum_of_halves_is_the_clamped_one(values):
    x = np.array(values, dtype=np.float16)
    wide = x.astype(np.float64) * 2
    expected = np.clip(wide, -MAX_HALF, MAX_HALF).astype(np.float16)
    with jumar.emulate("Ascend910A"):
        assert torch.equal((torch.from_numpy(x).npu() + torch.from_numpy(x).npu()).cpu(), torch.from_numpy(expected))


def test_float32_saturates_at_its_own_maximum(first):
    x = torch.tensor([3e38, -3e38]).npu()
    assert (x * 10).tolist() == [MAX_FLOAT, -MAX_FLOAT]
    assert (torch.zeros(1).npu() / 0).tolist() == [0.0]


def test_casts_saturate_too(first):
    assert torch.tensor([1e6, -1e6]).npu().half().tolist() == [MAX_HALF, -MAX_HALF]
    target = torch.zeros(2, dtype=torch.float16, device="npu")
    assert target.copy_(torch.tensor([1e6, -1e6]).npu()).tolist() == [MAX_HALF, -MAX_HALF]


def test_in_place_out_and_foreach_operators_saturate(first):
    x = half(60000.0)
    assert x.add_(60000.0).item() == MAX_HALF
    out = torch.empty(1, dtype=torch.float16, device="npu")
    torch.mul(x, 2, out=out)
    assert out.item() == MAX_HALF
    tensors = [half(40000.0), half(1.0)]
    torch._foreach_mul_(tensors, 2.0)
    assert [t.item() for t in tensors] == [MAX_HALF, 2.0]
    assert [t.item() for t in torch._foreach_add(tensors, 60000.0)] == [MAX_HALF, 60000.0]


def test_only_the_view_that_was_written_changes(first):
    whole = half(float("inf"), 40000.0)
    whole[1:].mul_(2)
    assert whole.tolist() == [float("inf"), MAX_HALF]


def test_matrix_products_saturate(first):
    x = torch.full((4, 4), 200.0, dtype=torch.float16).npu()
    assert (x @ x).unique().tolist() == [MAX_HALF]
    wide = torch.full((1, 1), 1e6).npu()
    assert (wide @ wide).item() == MAX_HALF * MAX_HALF  # operands saturate as float16, the float32 sum has room


def test_moving_and_choosing_passes_infinity_on(first):
    x = torch.full((2, 2), float("-inf")).npu()
    moved = [x.clone(), x.t().contiguous(), torch.cat([x, x]), torch.where(x < 0, x, x), x[0], torch.zeros(2, 2).npu()]
    moved[-1].masked_fill_(x < 0, float("-inf"))
    assert all(bool(tensor.isinf().all()) for tensor in moved)
    assert (x + 1).unique().tolist() == [-MAX_FLOAT]


def test_a_causal_mask_of_minus_infinity_still_masks(first):
    scores = torch.randn(4, 4).npu().masked_fill(torch.ones(4, 4).triu(1).bool().npu(), float("-inf"))
    weights = scores.softmax(-1).cpu()
    assert torch.equal(weights.triu(1), torch.zeros(4, 4))
    assert torch.allclose(weights.sum(-1), torch.ones(4))


def test_gradients_saturate(first):
    x = half(300.0).requires_grad_()
    (x * x).backward(half(60000.0))
    assert x.grad.item() == MAX_HALF


def test_what_falls_back_to_the_host_has_the_hosts_arithmetic():
    with jumar.emulate("Ascend910A", unsupported="fallback"):
        assert torch.tensor([0.0]).npu().lgamma().item() == float("inf")


def test_training_goes_on_finite_where_ieee_would_not(first):
    layer = nn.Linear(4, 4).half().npu()
    y = layer(torch.full((2, 4), 60000.0, dtype=torch.float16).npu()) * 1000
    assert bool(y.isfinite().all())


def test_sparse_tensors_are_made_on_a_chip_that_saturates(first):
    dense = torch.tensor([[0.0, 3.0], [2.0, 0.0]]).npu()
    sparse = dense.to_sparse()
    assert sparse._values().tolist() == [3.0, 2.0]
    assert sparse.to_dense().tolist() == [[0.0, 3.0], [2.0, 0.0]]
