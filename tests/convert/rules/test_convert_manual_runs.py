"""What the manual steps make of a script, run on the emulated NPU beside the original on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from opt_in_cases import outcome_with

import jumar

SCRIPT = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device('cuda')
train_set = TensorDataset(torch.randn(22, 6), torch.randint(0, 3, (22,)))
train_loader = DataLoader(train_set, batch_size=4)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).to(device)
criterion = nn.CrossEntropyLoss()
losses, sizes = [], []


def accuracy(output, target):
    return (output.argmax(1) == target).float().mean().item()


def train(optimizer):
    for data, target in train_loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        accuracy(output, target)
        losses.append(loss.item())
        sizes.append(len(data))


optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for epoch in range(3):
    train(optimizer)
checkpoint = {'model': model.state_dict(), 'optimizer': optimizer.state_dict()}
"""


def run(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "train.py", "exec"), names)
    return names


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    return run(SCRIPT.replace("'cuda'", "'cpu'"))


@pytest.fixture
def npu() -> Iterator[None]:
    with jumar.emulate(numerics="exact"):
        yield


def converted(*codes: str) -> str:
    found = outcome_with(SCRIPT, *codes)
    assert set(codes) <= {f.code for f in found.findings if f.evidence.get("applied")}
    return found.after.decode()


def test_int32_targets_pinned_memory_and_a_set_device_change_no_bit(npu: None, reference: dict[str, Any]) -> None:
    names = run(converted("JM150", "JM152", "JM153", "JM158", "JM161"))
    assert names["losses"] == reference["losses"]


def test_without_partial_batches_every_step_has_the_same_shape(npu: None) -> None:
    names = run(converted("JM151"))
    assert set(names["sizes"]) == {4}
    assert len(names["sizes"]) == 3 * (22 // 4)


def test_mixed_precision_trains_as_float32_does_within_float16(npu: None, reference: dict[str, Any]) -> None:
    names = run(converted("JM154", "JM159"))
    assert names["losses"] == pytest.approx(reference["losses"], rel=2e-2)
    assert names["losses"] != reference["losses"]
    assert set(names["checkpoint"]["amp"]) >= {"scale", "growth_factor"}


def test_bfloat16_trains_as_float32_does_within_bfloat16(npu: None, reference: dict[str, Any]) -> None:
    names = run(converted("JM155"))
    assert names["losses"] == pytest.approx(reference["losses"], rel=5e-2)
    assert names["losses"] != reference["losses"]


def test_a_fused_optimizer_takes_the_same_steps(npu: None, reference: dict[str, Any]) -> None:
    names = run(converted("JM157"))
    assert type(names["optimizer"]).__name__ == "NpuFusedSGD"
    assert names["losses"] == pytest.approx(reference["losses"], rel=1e-5)


def test_all_steps_together_train(npu: None) -> None:
    codes = ("JM150", "JM151", "JM152", "JM153", "JM154", "JM157", "JM158", "JM159", "JM161")
    names = run(converted(*codes))
    assert names["losses"][-1] < names["losses"][0]


APEX = """\
import torch
import torch.nn as nn
from apex import amp

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level={level!r}, loss_scale=128.0)
criterion = nn.CrossEntropyLoss()
x, y = torch.randn(8, 6).cuda(), torch.randint(0, 3, (8,)).cuda()
losses = []
for step in range(6):
    optimizer.zero_grad()
    output = model(x)
    loss = criterion(output, y)
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
    optimizer.step()
    losses.append(loss.item())
state = amp.state_dict()
"""


@pytest.fixture(scope="module")
def apex_losses() -> dict[str, list[float]]:
    """What the scripts lose with apex kept, in a process of its own: apex changes PyTorch's functions for good."""
    sources = {level: outcome_with(APEX.format(level=level)).after.decode() for level in ("O0", "O2", "O1")}
    program = (
        "import json, sys, jumar\n"
        "with jumar.emulate(numerics='exact'):\n"
        "    for level, source in json.load(sys.stdin).items():\n"
        "        names = {}\n"
        "        exec(source, names)\n"
        "        print('\\n@', json.dumps([level, names['losses']]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(sources), capture_output=True, text=True, check=True
    )
    return dict(json.loads(line[2:]) for line in done.stdout.splitlines() if line.startswith("@ "))


@pytest.mark.slow
@pytest.mark.parametrize("level", ["O0", "O1", "O2"])
def test_what_stands_for_apex_trains_as_apex_does(npu: None, level: str, apex_losses: dict[str, list[float]]) -> None:
    replaced = run(outcome_with(APEX.format(level=level), "JM156").after.decode())
    if level == "O2":  # whose weights were float16
        assert replaced["losses"] == pytest.approx(apex_losses[level], rel=1e-2)
    else:
        assert replaced["losses"] == apex_losses[level]
    assert replaced["output"].dtype is (torch.float32 if level == "O0" else torch.float16)
    if level != "O0":
        assert replaced["state"]["scale"] == 128.0


def test_checkpoints_with_and_without_prefix_load_after_conversion(npu: None, tmp_path: Any) -> None:
    weights = torch.nn.Linear(2, 2).state_dict()
    source = (
        "import torch\nmodel = torch.nn.Linear(2, 2)\ncheckpoint = torch.load(path, map_location='cpu')\n"
        "model.load_state_dict(checkpoint['state'])\n"
    )
    after = outcome_with(source, "JM160").after.decode()
    for prefix in ("", "module."):
        path = tmp_path / "checkpoint.pt"
        torch.save({"state": {prefix + key: value for key, value in weights.items()}}, path)
        names: dict[str, Any] = {"path": path}
        exec(compile(after, "load.py", "exec"), names)
        assert torch.equal(names["model"].weight, weights["weight"])
