"""What HCCL does not take is said, once, before a script meets the machine."""

from __future__ import annotations

import warnings

import pytest
import torch

from jumar.device import DevicePlan, activate, emulate
from jumar.npu.parallel.hccl import limits

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_said", set())
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)


@pytest.mark.parametrize("size", [3, 5, 6, 7])
def test_a_number_of_ranks_that_hccl_does_not_connect_is_warned_of(size):
    with emulate(), pytest.warns(UserWarning, match=f"1, 2, 4 or 8 devices of a machine; this group has {size} ranks"):
        limits.check_ranks(size)


def test_ranks_of_one_machine_count_not_those_of_all(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    with emulate(), warnings.catch_warnings():
        warnings.simplefilter("error")
        limits.check_ranks(24)


@pytest.mark.parametrize(
    ("soc", "dtype", "reduces", "complains"),
    [
        ("Ascend910A", torch.float64, True, True),
        ("Ascend910A", torch.bfloat16, False, True),
        ("Ascend910A", torch.float16, True, False),
        ("Ascend910B1", torch.bfloat16, True, False),
        ("Ascend910B1", torch.float64, True, True),
        ("Ascend910B1", torch.float64, False, False),
    ],
)
def test_types_follow_the_chip(soc, dtype, reduces, complains):
    with emulate(soc), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            limits.check_dtype("allreduce", dtype, reduces=reduces)
    assert len(said) == complains


def test_the_policy_error_raises_and_fallback_is_silent():
    with emulate(unsupported="error"), pytest.raises(RuntimeError, match="cast the tensor"):
        limits.check_dtype("allreduce", torch.float64, reduces=True)
    with emulate(unsupported="fallback"), warnings.catch_warnings():
        warnings.simplefilter("error")
        limits.check_dtype("allreduce", torch.float64, reduces=True)
