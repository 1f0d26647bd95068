"""What changes a process for good is tested in a process of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jumar.device import DevicePlan

FOLDER = Path(__file__).parent / "emulator_isolated"


def run(*command: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["multiple", "transfer", "memory_limits", "memory_statistics"])
def test_a_file_of_isolated_tests_passes(name):
    output = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER / f"{name}.py"))
    assert " passed" in output


def test_the_first_block_of_a_process_leaves_no_settings_behind():
    code = """
import jumar
with jumar.emulate("Ascend910A", num_devices=2, memory_bytes=2**30) as active:
    import torch
    print(active.soc, torch.npu.device_count(), torch.npu.mem_get_info()[1])
print(torch.npu.get_device_name(), torch.npu.device_count(), torch.npu.mem_get_info()[1])
"""
    assert run(sys.executable, "-c", code).splitlines() == [f"Ascend910A 2 {2**30}", f"Ascend910B1 8 {2**36}"]


TRANSFER = """
import os, sys
os.environ["TORCH_TRANSFER_TO_NPU"] = sys.argv[1]
from jumar.base.errors import DeviceError
from jumar.device import DevicePlan, activate
try:
    activate(DevicePlan(real="never"))
except DeviceError as error:
    raise SystemExit(print(error))
import torch
print(torch.zeros(1, device="cuda").device if torch.cuda.is_available() else "no CUDA")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("value", "expected"), [("1", "npu:0"), ("0", "no CUDA"), ("yes", "takes 0 or 1")])
def test_the_environment_asks_for_transfer_to_npu(value, expected):
    assert expected in run(sys.executable, "-W", "ignore", "-c", TRANSFER, value)


def ranks(size: int, *more: str) -> list[dict[str, Any]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    lines = run(sys.executable, str(FOLDER / "ranks.py"), str(size), str(port), *more).splitlines()
    return sorted((json.loads(line) for line in lines if line.startswith("{")), key=lambda item: item["rank"])


@pytest.mark.slow
def test_one_rank_on_hccl():
    (found,) = ranks(1)
    assert found["backend"] == "hccl"
    assert found["collectives"]["all_reduce"] == [1, 1]
    assert found["ddp"] == {"equal on all ranks": True, "gradient on": "npu:0"}


@pytest.mark.slow
def test_two_ranks_on_hccl():
    first, second = ranks(2)
    assert first["collectives"] == {
        "all_reduce": [3, 3],
        "async max": [2, 2],
        "broadcast": [2, 2],
        "all_gather": [[1, 1], [2, 2]],
        "all_gather_into_tensor": [1, 1, 2, 2],
        "reduce_scatter_tensor": [0],
        "all_to_all": [[1, 1], [2, 2]],
        "objects": [{"rank": 0}, {"rank": 1}],
        "device": "npu:0",
    }
    assert second["collectives"]["reduce_scatter_tensor"] == [2]
    assert second["collectives"]["all_to_all"] == [[11, 11], [12, 12]]
    assert second["collectives"]["device"] == "npu:1"
    assert first["ddp"] == {"equal on all ranks": True, "gradient on": "npu:0"}
    assert second["ddp"] == {"equal on all ranks": True, "gradient on": "npu:1"}
    assert first["sync"]["far from one process"] < 1e-6
    assert first["apex"]["weights"] == second["apex"]["weights"]
    assert first["apex"]["apart"] < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("num_ranks", [2, 4, 8])
def test_what_sharded_training_is_made_of_works_on_several_ranks(num_ranks):
    for rank, found in enumerate(ranks(num_ranks)):
        more = found["more"]
        assert more.pop("group of two", [2, 2]) == [2, 2]
        assert more == {
            "coalesced": [[num_ranks] * 2] * 3,
            "functional": [num_ranks] * 2,
            "from the left": (rank - 1) % num_ranks,
            "all_to_all_single": [10 * other + rank for other in range(num_ranks)],
            "sharded product": sum(range(4 * num_ranks)) * 3,
            "product over all ranks": [[2 * num_ranks] * 2] * 2,
            "a CPU tensor": "No backend type associated with device type cpu",
        }
        assert found["ddp"]["equal on all ranks"]


@pytest.mark.slow
def test_a_lost_rank_is_an_error_for_the_others():
    assert ranks(2, "lose") == [{"rank": 0, "errors": ["RuntimeError", "RuntimeError"]}]


def test_a_child_process_may_import_torch_npu_before_torch():
    code = "import torch_npu, torch; print(torch_npu.__version__, torch.ones(2).npu().device)"
    environment = {**os.environ, **DevicePlan(real="never").to_environment()}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.split() == ["2.13.0+jumar", "npu:0"], done.stderr
