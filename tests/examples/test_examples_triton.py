"""The example with Triton kernels: its port compares every launch, and the results are those of plain PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from example_runs import EXAMPLES

pytest.importorskip("triton", reason="Triton is not installed: its kernels cannot be run")
pytestmark = pytest.mark.slow


def run(*command: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_port_of_a_script_with_kernels_agrees_and_compares_each_launch(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes((EXAMPLES / "triton" / "train.py").read_bytes())
    run("-m", "jumar", "port", "--steps", "2", "train.py", "-o", "ported", folder=tmp_path)
    verdict = run("-m", "jumar", "compare", "ported/reference", "ported/npu", "--json", folder=tmp_path)
    found = json.loads(verdict)
    assert found["status"] == "agree"


PLAIN = """
def plain_dropped(x, p, seed):
    y = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(x.numel(), 256),)](torch.ones_like(x), y, x.numel(), p, seed, BLOCK=256)
    return x * y


def plain_layer_norm(x):
    return nn.functional.layer_norm(x, x.shape[-1:])


dropped = plain_dropped
matmul = torch.matmul
LayerNorm.apply = staticmethod(plain_layer_norm)
"""


def test_the_kernels_train_as_the_formulas_of_pytorch_do(tmp_path: Path) -> None:
    text = (EXAMPLES / "triton" / "train.py").read_text().replace("cuda", "npu")
    (tmp_path / "kernels.py").write_text(text)
    (tmp_path / "plain.py").write_text(text.replace("class Network(", f"{PLAIN}\n\nclass Network("))
    losses = [
        [float(line.split()[-1]) for line in run("-m", "jumar", "run", name, folder=tmp_path).splitlines()]
        for name in ("kernels.py", "plain.py")
    ]
    assert len(losses[0]) == 4
    assert losses[0] == pytest.approx(losses[1], abs=2e-6)
