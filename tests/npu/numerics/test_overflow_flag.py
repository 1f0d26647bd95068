"""The overflow flag, who raises it, and who reads it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import jumar
from jumar.base.errors import DeviceError
from jumar.device import DevicePlan, activate
from jumar.npu.core.plans import PLANS
from jumar.npu.numerics import overflow

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

import torch_npu  # noqa: E402 - the device must be up before its alias resolves
from torch_npu.npu.utils import (  # noqa: E402
    clear_npu_overflow_flag,
    get_npu_overflow_flag,
    is_support_inf_nan,
    npu_check_overflow,
)


@pytest.fixture(autouse=True)
def lowered(monkeypatch):
    for name in ("INF_NAN_MODE_ENABLE", "INF_NAN_MODE_FORCE_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    overflow.clear()
    yield
    overflow.set_mode(None)
    overflow.set_dumping(False)
    overflow.clear()


@pytest.fixture
def first():
    with jumar.emulate("Ascend910A"):
        yield


def overflowing():
    x = torch.tensor([40000.0], dtype=torch.float16).npu()
    return x + x


def status():
    return torch_npu.npu_get_float_status(torch_npu.npu_alloc_float_status(torch.zeros(8).npu())).cpu()


def test_an_overflow_raises_the_flag_until_it_is_cleared(first):
    assert get_npu_overflow_flag() is False
    overflowing()
    torch.ones(3).npu() + 1
    assert (get_npu_overflow_flag(), get_npu_overflow_flag()) == (True, True)
    assert overflow.flag() == overflow.Overflow("aten::add.Tensor", "aicore")
    clear_npu_overflow_flag()
    assert get_npu_overflow_flag() is False


def test_checking_lowers_the_flag_where_there_is_one(first):
    overflowing()
    assert (npu_check_overflow(torch.zeros(1)), npu_check_overflow(torch.zeros(1))) == (True, False)


def test_the_status_operators_of_a_chip_switched_to_saturation(monkeypatch):
    """The sequence of the vendor's own test of these operators."""
    monkeypatch.setenv("INF_NAN_MODE_FORCE_DISABLE", "1")
    monkeypatch.setenv("INF_NAN_MODE_ENABLE", "1")
    with jumar.emulate("Ascend910B1"):
        overflowing()
        raised = status()
        torch_npu.npu_clear_float_status(raised.npu())
        cleared = status()
    assert (raised.dtype, raised[0].item() != 0) == (torch.int32, True)
    assert cleared.tolist() == [0] * 8


def test_a_status_of_the_first_generation_is_float32(first):
    overflowing()
    assert (status().dtype, status()[0].item() != 0) == (torch.float32, True)
    assert torch_npu.npu_clear_float_status(torch.rand(8).npu()).cpu().tolist() == [0.0] * 8
    assert status()[0].item() == 0


def test_a_status_mode_is_0_or_1(first):
    with pytest.raises(RuntimeError, match=r"ORIGINAL_MODE\(0\) DEBUG_MODE\(1\), but got mode:2"):
        torch_npu.npu_get_float_status(torch.zeros(8).npu(), 2)


def test_under_ieee_the_values_tell_and_the_flag_stays_down():
    with jumar.emulate("Ascend910B1"):
        y = overflowing()
        assert (is_support_inf_nan(), npu_check_overflow(y), npu_check_overflow(torch.ones(2).npu())) == (
            True,
            True,
            False,
        )
        assert [npu_check_overflow(value) for value in (1.0, float("inf"), float("nan"))] == [False, True, True]
        assert status().tolist() == [0] * 8
        with pytest.raises(RuntimeError, match="Unsupported api when soc_version >= Ascend910B1"):
            get_npu_overflow_flag()
        with pytest.warns(UserWarning, match="clear_npu_overflow_flag is useless"):
            clear_npu_overflow_flag()
        with pytest.raises(RuntimeError, match="Unsupported type"):
            npu_check_overflow("x")


def test_infinite_inputs_and_moves_are_no_overflow(first):
    x = torch.full((2,), float("inf")).npu()
    x + 1
    x.clone()
    torch.zeros(2).npu().masked_fill_(torch.ones(2).bool().npu(), float("-inf"))
    assert overflow.flag() is None


def test_a_nan_of_finite_inputs_is_one(first):
    torch.tensor([-1.0]).npu().sqrt()
    assert overflow.flag() == overflow.Overflow("aten::sqrt", "aicore")


def test_operands_that_do_not_fit_float16_overflow_in_the_cast_to_it(first):
    torch.full((1, 1), 1e6).npu() @ torch.ones(1, 1).npu()
    assert overflow.flag() == overflow.Overflow("aten::mm", "aicore")


ATOMIC = {
    "aten::index_add": lambda x: torch.zeros(2, dtype=x.dtype).npu().index_add(0, torch.tensor([0, 0]).npu(), x),
    "aten::scatter_add": lambda x: torch.zeros(2, dtype=x.dtype).npu().scatter_add(0, torch.tensor([0, 0]).npu(), x),
    "aten::embedding_dense_backward": lambda x: torch.ops.aten.embedding_dense_backward(
        x[:, None], torch.tensor([0, 0]).npu(), 2, -1, False
    ),
}


@pytest.mark.parametrize("operator", ATOMIC)
def test_sums_into_one_place_overflow_atomically(first, operator):
    ATOMIC[operator](torch.full((2,), 40000.0, dtype=torch.float16).npu())
    assert overflow.flag() == overflow.Overflow(operator, "atomic")


def collected(mode):
    found = []
    overflow.set_mode(mode)
    with overflow.watch(found.append):
        overflowing()
        ATOMIC["aten::index_add"](torch.full((2,), 40000.0, dtype=torch.float16).npu())
    overflow.set_mode(None)
    return [item.kind for item in found]


@pytest.mark.parametrize(
    ("mode", "kinds"),
    [("aicore_overflow", ["aicore"]), ("atomic_overflow", ["atomic"]), ("all", ["aicore", "atomic"]), (None, [])],
)
def test_a_mode_collects_its_kind(first, mode, kinds):
    assert collected(mode) == kinds


def test_a_later_chip_collects_all_and_changes_no_value():
    with jumar.emulate("Ascend910B1"):
        assert collected("all") == ["aicore", "atomic"]
        overflow.set_mode("all")
        assert overflowing().item() == float("inf")
        with pytest.raises(DeviceError, match="on Ascend910B1 the overflow mode must be 'all'; got 'atomic_overflow'"):
            overflow.set_mode("atomic_overflow")


def test_an_unknown_mode_is_refused(first):
    with pytest.raises(DeviceError, match="must be one of aicore_overflow, atomic_overflow, all; got 'some'"):
        overflow.set_mode("some")


def test_overflows_and_data_are_not_collected_at_once(first):
    overflow.set_dumping(True)
    with pytest.raises(DeviceError, match="end the data dump first"):
        overflow.set_mode("all")
    overflow.set_dumping(False)
    overflow.set_mode("all")
    with pytest.raises(DeviceError, match="end the overflow mode 'all' first"):
        overflow.set_dumping(True)


def test_nobody_pays_while_nothing_is_collected_under_ieee():
    with jumar.emulate("Ascend910B1"):
        x = torch.tensor([40000.0], dtype=torch.float16).npu()
        assert (x * x).isinf()
        plain = PLANS["aten::mul.Tensor"].call
        overflow.set_mode("all")
        assert (x * x).isinf()
        watched = PLANS["aten::mul.Tensor"].call
        overflow.set_mode(None)
        assert (x * x).isinf()
        after = PLANS["aten::mul.Tensor"].call
    assert [getattr(call, "__name__", "") for call in (plain, watched, after)] == [
        "call_boxed",
        "run",
        "call_boxed",
    ]


def step(scaler, layer, optimizer):
    optimizer.zero_grad()
    with torch.autocast("npu", dtype=torch.float16):
        loss = layer(torch.full((1, 4), 1e-3).npu()).float().sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


@pytest.mark.parametrize("make", [torch_npu.npu.amp.GradScaler, lambda: torch.amp.GradScaler("npu")])
@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910B1"])
@pytest.mark.filterwarnings("ignore:Device do not support double", "ignore:The operator .*_amp_update_scale_")
def test_a_loss_scaler_skips_the_step_that_overflows(soc, make):
    with jumar.emulate(soc):
        torch.manual_seed(0)
        layer = nn.Linear(4, 1).npu()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        scaler = make()
        before = layer.weight.detach().clone()
        step(scaler, layer, optimizer)  # the gradient is the scale, 65536, which is no float16
        assert torch.equal(layer.weight, before)
        assert scaler.get_scale() == 2.0**15
        step(scaler, layer, optimizer)
        assert not torch.equal(layer.weight, before)
        assert scaler.get_scale() == 2.0**15
