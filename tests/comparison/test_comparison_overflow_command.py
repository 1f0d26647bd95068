"""`jumar overflow`: a script or a recording in, the operator out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.cli.main import main

SCRIPT = """
import torch
net = torch.nn.Linear(8, 8).half().npu()
torch.nn.init.eye_(net.weight)
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
for step in range(2):
    y = net(torch.full((2, 8), 300.0).half().npu())
    loss = (y * y).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step)
"""

HEALTHY = SCRIPT.replace("300.0", "3.0")


def jumar(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from jumar.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "overflow", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def test_a_script_is_recorded_and_its_overflow_named(script: Path) -> None:
    result = jumar(script, "-o", "run", "train.py")
    assert result.returncode == 1
    assert result.stdout.startswith("The first operator that makes Inf of finite values, and it is used, is aten::mul")
    assert "step 1" in result.stderr
    assert len(result.stdout.splitlines()) <= 15
    assert main(["overflow", str(script / "run"), "--fail-on", "never"]) == 0


def test_a_chip_that_saturates_stops_at_its_greatest_number(script: Path) -> None:
    result = jumar(script, "--soc", "Ascend910A", "--mode", "aicore_overflow", "--json", "train.py")
    document = json.loads(result.stdout)
    assert (result.returncode, document["saturations"][0]["value"]) == (1, 65504.0)
    assert document["saturations"][0]["operator"] == "aten::mul.Tensor"
    assert document["headline"].endswith("on this chip it saturates.")


def test_a_healthy_script_is_fine(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEALTHY)
    result = jumar(tmp_path, "--steps", "0:1", "--frames", "2", "train.py")
    assert (result.returncode, result.stdout.splitlines()[0]) == (0, "No overflow is used in 1 step.")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--mode", "aicore_overflow", "train.py"), 'on Ascend910B1 the overflow mode must be "all"'),
        (("--values", "tensors", "train.py"), "cannot be collected at once"),
        (("missing.py",), "missing.py"),
    ],
)
def test_what_excludes_each_other_is_one_sentence(
    script: Path,
    arguments: tuple[str, ...],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(script)
    assert main(["overflow", *arguments]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert sentence in said


def test_a_script_that_dumps_is_told_that_it_cannot_at_once(script: Path) -> None:
    dumping = "torch.npu.init_dump()\ntorch.npu.set_dump('d.json')\n"
    (script / "d.json").write_text('{"dump": {"dump_path": "out", "dump_op_switch": "on"}}')
    (script / "dumps.py").write_text(SCRIPT.replace("net =", f"{dumping}net =", 1))
    assert "overflows and operator data cannot be collected at once" in jumar(script, "dumps.py").stderr


def test_arguments_of_a_recording_are_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    assert main(["overflow", str(tmp_path / "run"), "more"]) == 2
    assert "is no script" in capsys.readouterr().err
