"""What the device does when it is first used: it checks the environment, and reads the allocator's options late."""

import json
import subprocess
import sys

import pytest
import torch

from jumar.device import DevicePlan, activate, emulate
from jumar.npu.memory import memory
from jumar.npu.memory.allocator import parse
from jumar.npu.runtime import control

PLAN = DevicePlan(real="never")
activate(PLAN)

CONFIG, MODE = "TORCH_ACL_INIT_CONFIG_PATH", "ACL_OP_INIT_MODE"
REFUSED = {
    "no JSON": ("not a json{{{", "Failed to parse user acl json"),
    "empty": ("", "Failed to parse user acl json"),
    "a list": ("[]", "lacks 'defaultDevice'"),
    "no default device": ('{"dump": {}}', "lacks 'defaultDevice'"),
    "of another type": ('{"defaultDevice": "0"}', "lacks 'defaultDevice'"),
    "another device": ('{"defaultDevice": {"default_device": "1"}}', "requires 'defaultDevice.default_device'"),
}


@pytest.fixture(autouse=True)
def unused(monkeypatch):
    monkeypatch.setattr(control, "_used", [])


@pytest.mark.parametrize("name", REFUSED)
def test_a_configuration_that_the_vendor_refuses_is_refused(name, tmp_path, monkeypatch):
    text, message = REFUSED[name]
    path = tmp_path / "acl.json"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setenv(CONFIG, str(path))
    with pytest.raises(RuntimeError, match=message):
        torch.npu.set_device(0)


def test_a_configuration_that_is_not_there_is_refused_and_a_good_one_is_taken(tmp_path, monkeypatch):
    path = tmp_path / "acl.json"
    monkeypatch.setenv(CONFIG, str(path))
    with pytest.raises(RuntimeError, match="is invalid"):
        torch.npu.set_device(0)
    path.write_text(json.dumps({"dump": {}, "defaultDevice": {"default_device": "0"}}), encoding="utf-8")
    torch.npu.set_device(0)
    assert torch.npu.is_initialized()


@pytest.mark.parametrize(
    ("soc", "mode", "message"),
    [("Ascend910B1", "999", r"not in \[0, 1, 2\]"), ("Ascend950", "1", "only supports ACL_OP_INIT_MODE=2")],
)
def test_an_unknown_mode_of_operators_is_warned_of(soc, mode, message, monkeypatch):
    monkeypatch.setenv(MODE, mode)
    with emulate(soc=soc), pytest.warns(UserWarning, match=message):
        torch.npu.init()


@pytest.mark.parametrize("mode", ["0", "1", "2"])
def test_a_known_mode_of_operators_is_taken(mode, monkeypatch):
    monkeypatch.setenv(MODE, mode)
    torch.npu.init()


def test_a_graph_is_not_captured_beside_pinned_memory_in_expandable_segments(monkeypatch):
    allocator = memory.settled(0)
    monkeypatch.setattr(allocator, "config", parse("pin_memory_expandable_segments:True"))
    with pytest.raises(RuntimeError, match="pin_memory_expandable_segments"), torch.npu.graph(torch.npu.NPUGraph()):
        pass


CODE = """
import os
from jumar.device import DevicePlan, activate
activate(DevicePlan(real="never"))
import torch
os.environ["PYTORCH_NPU_ALLOC_CONF"] = "expandable_segments:True,segment_size_mb:128"
x = torch.empty(2, 2**20, device="npu")
print(torch.npu.memory_reserved() // 2**20)
os.environ["PYTORCH_NPU_ALLOC_CONF"] = "expandable_segments:False"
y = torch.empty(100, 2**20, device="npu")
print(torch.npu.memory_reserved() // 2**20)
"""


@pytest.mark.slow
def test_the_allocators_options_are_read_at_the_first_allocation():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["128", "512"]
