"""A plan refuses what cannot be, in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jumar.base.errors import DeviceError
from jumar.device import DevicePlan
from jumar.device import plan as plan_module
from jumar.device.plan import Kind


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("memory_bytes", "32GB", "`memory_bytes` must be a positive whole number"),
        ("memory_bytes", 0, "`memory_bytes` must be a positive whole number"),
        ("memory_bytes", 1.5e9, "`memory_bytes` must be a positive whole number"),
        ("num_devices", "2", "`num_devices` must be a whole number between 1 and 64"),
        ("num_devices", 0, "`num_devices` must be a whole number between 1 and 64"),
        ("num_devices", 65, "`num_devices` must be a whole number between 1 and 64"),
        ("numerics", "exakt", "`numerics` must be one of strict, exact"),
        ("unsupported", "no", "`unsupported` must be one of warn, error, fallback"),
        ("soc", "Ascend42", '"Ascend42" must be an Ascend SoC that Jumar knows'),
    ],
)
def test_a_field_that_breaks_its_rule_is_named_with_its_value(field: str, value: Any, said: str) -> None:
    with pytest.raises(DeviceError) as refusal:
        DevicePlan(**{field: value})
    assert str(refusal.value).startswith(said)
    assert str(value) in str(refusal.value)


def test_a_plan_comes_back_from_the_environment() -> None:
    plan = DevicePlan(soc="Ascend910A", num_devices=2, numerics="exact", memory_bytes=2**30)
    assert DevicePlan.from_environment(plan.to_environment()) == plan


@pytest.mark.parametrize("text", ['{"soc":', '{"sock": "Ascend910A"}', "[]"])
def test_an_environment_that_holds_no_plan_is_refused(text: str) -> None:
    with pytest.raises(DeviceError, match="JUMAR_DEVICE_PLAN"):
        DevicePlan.from_environment({"JUMAR_DEVICE_PLAN": text})


def test_a_process_with_the_emulated_npu_sees_no_gpu_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_module, "_GPUS", (str(tmp_path),))
    assert DevicePlan(real="never").to_environment()["CUDA_VISIBLE_DEVICES"] == "-1"
    kinds: tuple[Kind, ...] = ("cpu", "cuda", "cuda-stand-in")
    assert all("CUDA_VISIBLE_DEVICES" not in DevicePlan(kind=kind).to_environment() for kind in kinds)
    monkeypatch.setattr(plan_module, "_GPUS", (str(tmp_path / "none"),))
    assert "CUDA_VISIBLE_DEVICES" not in DevicePlan(real="never").to_environment()
