"""The emulated NPU in a process that also uses a real GPU: its memory is not the host's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jumar.capture import record
from jumar.device import emulate
from jumar.recording import Recording

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, and TEST_GPU=1")


def test_a_recording_beside_the_emulated_npu_has_the_values_of_gpu_tensors(tmp_path: Path) -> None:
    with emulate(), record(tmp_path / "r"):
        data = torch.arange(6.0, device="cuda").reshape(2, 3)
        data.relu().half().mul_(2)
        torch.arange(3.0).to("npu").relu()
    rows = {(row.name, row.outputs[0].device): row.outputs[0] for row in Recording.open(tmp_path / "r").rows(0)}
    assert rows["aten::relu", "cuda:0"].maximum == 5
    assert rows["aten::mul_.Tensor", "cuda:0"].maximum == 10
    assert rows["aten::relu", "npu:0"].maximum == 2


def test_a_run_on_the_emulated_npu_sees_no_gpu() -> None:
    code = (
        "from jumar.device import DevicePlan, activate\nactivate(DevicePlan(real='never'))\nimport torch\n"
        "assert not torch.cuda.is_available()\ndata = torch.ones(3, device='npu', requires_grad=True)\n"
        "data.exp().sum().backward()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_operator_over_both_devices_is_refused() -> None:
    with emulate():
        here, there = torch.ones(3, device="npu"), torch.ones(3, device="cuda")
        with pytest.raises(RuntimeError, match="at least two devices, npu:0 and cuda:0"):
            here + there
        with pytest.raises(RuntimeError, match="at least two devices"):
            torch.cat([here, there])
        assert torch.equal((here + there.cpu().to("npu")).cpu(), torch.full((3,), 2.0))
        assert here.to("cuda").device.type == "cuda"
        assert torch.equal(here.to("cuda"), there)
