"""Limits of dtypes are those of the kernel that the chip really takes; one kernel for a whole composition is one."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import jumar

CHIPS = ["Ascend910A", "Ascend310P3", "Ascend910B1"]


def matrix(dtype: torch.dtype) -> Any:
    return (torch.eye(3, dtype=torch.float64) * 4 + 0.5).to(dtype).npu()


WHOLE = {
    "inverse": torch.inverse,
    "inverse of a batch": lambda x: torch.inverse(torch.stack([x, x])),
    "inverse into an output": lambda x: torch.inverse(x, out=torch.empty(0, dtype=x.dtype, device="npu")),
    "slogdet": lambda x: torch.slogdet(x)[1],
    "cholesky": torch.linalg.cholesky,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("name", ["inverse", "slogdet", "inverse into an output"])
@pytest.mark.parametrize("soc", CHIPS)
def test_a_composition_with_a_kernel_of_its_own_falls_back_nowhere(soc, name, dtype):
    with jumar.emulate(soc), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = WHOLE[name](matrix(dtype))
        expected = WHOLE[name](matrix(dtype).cpu().double().npu()).cpu()
    assert found.dtype is dtype
    torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("unsupported", ["warn", "error"])
def test_it_runs_and_has_a_gradient_whatever_is_said_of_its_parts(unsupported, name):
    x = matrix(torch.float32)
    with jumar.emulate(unsupported=unsupported), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.isfinite(WHOLE[name](x)).all()
        if name == "inverse":
            x.requires_grad_()
            WHOLE[name](x).sum().backward()
            assert x.grad is not None


@pytest.mark.parametrize(("soc", "dtype"), [("Ascend910A", torch.bfloat16), ("Ascend910B1", torch.int32)])
def test_its_own_limits_hold(soc, dtype):
    with jumar.emulate(soc), pytest.raises(RuntimeError, match="aclnnInverse"):
        torch.inverse(torch.eye(3).to(dtype).npu())


@pytest.mark.parametrize("soc", CHIPS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int32])
@pytest.mark.filterwarnings("ignore:The operator:UserWarning")
def test_bucketize_takes_what_searchsorted_takes(soc, dtype):
    boundaries, x = torch.arange(4).to(dtype), torch.tensor([[3, 0], [2, 9]]).to(dtype)
    with jumar.emulate(soc):
        found = torch.bucketize(x.npu(), boundaries.npu(), right=True)
    assert torch.equal(found.cpu(), torch.bucketize(x, boundaries, right=True))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.bool])
def test_bucketize_refuses_by_the_name_of_the_kernel_it_takes(dtype):
    with jumar.emulate(), pytest.raises(RuntimeError, match="aclnnSearchSorted"):
        torch.bucketize(torch.ones(2).to(dtype).npu(), torch.arange(3.0).npu())
