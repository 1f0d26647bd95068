"""`jumar run --summary`: what a run did to the emulated device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import torch
net = torch.nn.Linear(8, 4).npu()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for number in range(4):
    optimizer.zero_grad()
    x = torch.randn({rows}, 8).npu()
    net(x).square().sum().backward()
    optimizer.step()
    torch.linalg.matrix_exp(torch.eye(3).npu())
"""


def run(tmp_path: Path, rows: str, *options: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(rows=rows), encoding="utf-8")
    code = "from jumar.cli.main import run; run()"
    command = [sys.executable, "-W", "ignore", "-c", code, "run", "--unsupported", "fallback", "--summary", *options]
    return subprocess.run([*command, str(script)], capture_output=True, text=True, check=False)


def test_it_tells_memory_operators_and_an_estimate(tmp_path):
    done = run(tmp_path, "4")
    assert (done.returncode, done.stdout) == (0, "")
    title, memory, operators, estimate = done.stderr.splitlines()
    assert title == "jumar: 4 steps on an emulated Ascend910B1"
    assert memory.split()[0] == "npu:0"
    assert memory.endswith("of 64 GiB")
    assert "on the host, without an NPU kernel: aten::linalg_matrix_exp (4)" in operators
    assert "a model's figure, not a measurement" in estimate


@pytest.mark.slow
def test_shapes_that_change_show_as_compiles_after_the_first_step(tmp_path):
    same, changing = run(tmp_path, "4", "--soc", "Ascend910A"), run(tmp_path, "4 + number", "--soc", "Ascend910A")
    line = next(line for line in same.stderr.splitlines() if line.split()[0] == "compiles")
    assert line.endswith(" in the first step, 0 after it")
    assert "dimension 0 of self takes 4 values (4, 5, 6, 7)" in changing.stderr


def test_it_is_printed_also_when_the_script_fails(tmp_path):
    done = run(tmp_path, "None")
    assert done.returncode == 1
    assert "TypeError" in done.stderr
    assert done.stderr.splitlines()[-1].split()[0] == "operators"
    assert "jumar: 0 steps" in done.stderr
