"""Dtypes that a chip's operators do not take."""

from __future__ import annotations

import warnings

import pytest
import torch

import jumar
from jumar.device import DevicePlan, activate
from jumar.npu.core.plans import PLANS
from jumar.npu.numerics import casts
from jumar.soc.profiles import get_soc
from jumar.soc.support.data import kinds, table
from jumar.soc.support.dtypes import acl_name, dtype_limits

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


@pytest.fixture
def b1():
    with jumar.emulate("Ascend910B1"):
        yield


@pytest.fixture
def first():
    with jumar.emulate("Ascend910A"):
        yield


def on_npu(dtype, *shape):
    return torch.ones(*(shape or (4, 4)), dtype=dtype).npu()


def test_a_refused_dtype_reads_like_the_vendors_parameter_error(b1):
    with pytest.raises(RuntimeError) as caught:
        torch.expm1(on_npu(torch.float64))
    first, stamp, listed, advice = str(caught.value).splitlines()
    assert first == "expm1: NPU function error: call aclnnExpm1 failed, error code is 161002"
    assert stamp.endswith("ERR00100 PTA call acl api failed.")
    assert listed == (
        "AclNN_Parameter_Error(EZ1001): Tensor self not implemented for DT_DOUBLE, should be in dtype support list "
        "[DT_FLOAT,DT_FLOAT16,DT_INT64,DT_BOOL,DT_BFLOAT16,]."
    )
    assert advice == "aten::expm1 on Ascend910B1 takes no float64: cast it with .float()."


REFUSED = {
    "mm float64": (lambda t: t @ t, torch.float64),
    "mm int64": (lambda t: t @ t, torch.int64),
    "mm complex64": (lambda t: t @ t, torch.complex64),
    "addmm float64": (lambda t: torch.addmm(t, t, t), torch.float64),
    "baddbmm int32": (lambda t: torch.baddbmm(t[None], t[None], t[None]), torch.int32),
    "conv2d float64": (lambda t: torch.conv2d(t[None, None], t[None, None, :1, :1]), torch.float64),
    "relu float64": (torch.relu, torch.float64),
    "layer_norm float64": (lambda t: torch.layer_norm(t, (4,)), torch.float64),
    "softmax int64": (lambda t: torch.ops.aten._softmax(t, 1, False), torch.int64),
    "bitwise_and float32": (lambda t: t & t, torch.float32),
}


@pytest.mark.parametrize("name", REFUSED)
def test_these_are_refused_on_the_second_generation(b1, name):
    compute, dtype = REFUSED[name]
    with pytest.raises(RuntimeError, match=r"EZ1001.*not implemented for"):
        compute(on_npu(dtype))


TAKEN = {
    "add float64": (lambda t: t + t, torch.float64),
    "mul complex64": (lambda t: t * t, torch.complex64),
    "exp float64": (torch.exp, torch.float64),
    "sum int64": (torch.sum, torch.int64),
    "add_ int8": (lambda t: t.add_(t), torch.int8),
    "matmul bfloat16": (lambda t: t @ t, torch.bfloat16),
    "amax bfloat16": (torch.amax, torch.bfloat16),
    "embedding float64": (lambda t: torch.embedding(t, torch.tensor([0]).npu()), torch.float64),
    "clone complex128": (torch.clone, torch.complex128),
}


@pytest.mark.parametrize("name", TAKEN)
def test_these_are_taken_on_the_second_generation(b1, name):
    compute, dtype = TAKEN[name]
    assert compute(on_npu(dtype)).device.type == "npu"


def test_numbers_are_never_refused(b1):
    x = on_npu(torch.float32)
    assert torch.relu(torch.tensor(2.0, dtype=torch.float64).npu()).item() == 2.0
    assert (x.clamp(0.0, 0.5) * 2.0).unique().tolist() == [1.0]


def test_exact_numerics_take_every_dtype():
    with jumar.emulate("Ascend910A", numerics="exact"):
        assert (on_npu(torch.float64) @ on_npu(torch.float64)).dtype == torch.float64
        assert on_npu(torch.float32).bfloat16().dtype == torch.bfloat16


def test_a_host_fallback_takes_what_the_host_takes(b1):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.fmax(on_npu(torch.float64), on_npu(torch.float64)).dtype == torch.float64


@pytest.mark.parametrize(
    "compute",
    [lambda t: t + 1, lambda t: t @ t, torch.relu, lambda t: torch._foreach_mul([t], 2.0), lambda t: t.float()],
    ids=["add", "mm", "relu", "foreach", "cast"],
)
def test_the_first_generation_computes_nothing_in_bfloat16(first, compute):
    with pytest.raises(RuntimeError, match=r"not implemented for DT_BFLOAT16[\s\S]*the chip has no bfloat16"):
        compute(on_npu(torch.bfloat16))


def test_the_first_generation_stores_and_moves_bfloat16(first):
    x = on_npu(torch.bfloat16)
    assert torch.equal(torch.cat([x, x]).cpu(), torch.ones(8, 4, dtype=torch.bfloat16))


def test_a_cast_to_float64_gives_float32_after_one_warning(b1):
    casts._warned.clear()
    x = on_npu(torch.float32)
    with pytest.warns(UserWarning, match=r"Device do not support double dtype now, dtype cast replace with float\."):
        assert x.double().dtype == torch.float32
    assert (x.double().dtype, x.to(torch.float64).dtype, x.type(torch.float64).dtype) == (torch.float32,) * 3


def test_float64_that_was_made_or_came_so_stays(b1):
    x = torch.ones(2, dtype=torch.float64)
    assert x.npu().dtype == torch.float64
    assert torch.zeros(2, dtype=torch.float64, device="npu").dtype == torch.float64
    assert (x.npu() + 1).dtype == torch.float64
    assert x.npu().float().to("npu", torch.float64).dtype == torch.float64
    assert x.npu().float().cpu().double().dtype == torch.float64


def test_printing_says_nothing(b1):
    casts._warned.clear()
    assert "device='npu:0'" in repr(torch.tensor([0.5, 1.5]).npu())
    assert casts._warned == []


def test_operators_that_take_everything_pay_nothing(b1):
    on_npu(torch.float32).div(3).mul(2)
    assert [PLANS[name].call.__name__ for name in ("aten::div.Tensor", "aten::mul.Tensor")] == ["call_boxed"] * 2


def test_chips_whose_lists_are_not_public_have_no_limits():
    assert [dtype_limits(get_soc(name), "aten::mm") for name in ("Ascend950", "Ascend310B1")] == [(), ()]


def test_the_table_names_operators_of_pytorch_and_dtypes_that_exist():
    data = table("npu_dtypes")
    assert [name for name in data["operators"] if name not in kinds()] == []
    limits = [limit for name in data["operators"] for limit in dtype_limits(get_soc("Ascend910B1"), name)]
    assert len(limits) > 500
    assert {dtype for limit in limits for dtype in limit.dtypes if not hasattr(torch, dtype)} <= {"hifloat8"}
    assert [limit for limit in limits if not limit.function.startswith("aclnn") or not limit.dtypes] == []


def test_no_list_of_a_chip_without_bfloat16_has_it():
    data = table("npu_dtypes")
    profile = get_soc("Ascend910A")
    assert not any("bfloat16" in limit.dtypes for name in data["operators"] for limit in dtype_limits(profile, name))


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float32", "DT_FLOAT"), ("float64", "DT_DOUBLE"), ("bfloat16", "DT_BFLOAT16"), ("int64", "DT_INT64")],
)
def test_dtypes_have_canns_names(dtype, expected):
    assert acl_name(dtype) == expected


REPORTED = {
    "aten::expm1": "DT_FLOAT,DT_FLOAT16,DT_INT64,DT_BOOL,DT_BFLOAT16",
    "aten::repeat_interleave.self_int": "DT_UINT8,DT_INT8,DT_INT16,DT_INT32,DT_INT64,DT_BOOL,DT_FLOAT16,DT_FLOAT,"
    "DT_BFLOAT16",
}
"""Lists in error messages that users of a 910B have posted."""


@pytest.mark.parametrize("operator", REPORTED)
def test_lists_are_those_that_users_have_seen(operator):
    limits = {limit.argument: limit for limit in dtype_limits(get_soc("Ascend910B3"), operator)}
    assert ",".join(acl_name(dtype) for dtype in limits["self"].dtypes) == REPORTED[operator]


def test_complex_signals_are_shifted_on_later_chips():
    signal = torch.complex(torch.arange(4.0), torch.arange(4.0, 8.0))
    with jumar.emulate("Ascend910B1"):
        assert torch.equal(torch.fft.fftshift(signal.npu()).cpu(), torch.fft.fftshift(signal))
