"""No command imports what somebody put into the working folder, the folder for temporary files or the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.base.process import children

NET = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    return model.eval(), (torch.randn(2, 3, 8, 8),)
"""
TRAIN = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(2, 4).cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
OTHERS = (
    "torch", "torch_npu", "numpy", "libcst", "h5py", "pyarrow", "onnx", "onnxruntime", "openvino", "sympy", "yaml",
    "sitecustomize", "usercustomize", "triton", "typer", "click", "rich", "typing_extensions", "networkx", "psutil",
    "filelock", "jinja2", "fsspec", "mpmath", "packaging", "setuptools", "pytest", "helpers", "models", "nt",
)  # fmt: skip
"""What is not of the standard library and what processes import: planted, too."""
PLANTED = """
import os
with open(os.path.join(os.environ["PLANTED_RAN"], __name__ + "-" + str(os.getpid())), "w") as file:
    file.write(__file__)
raise ImportError("planted")
"""

COMMANDS = {
    "convert": ["convert", "-i", "{project}", "-o", "{out}", "--jobs", "2"],
    "doctor": ["doctor"],
    "run": ["run", "{project}/plain.py"],
    "record": ["record", "-o", "{out}", "--device", "cuda", "{project}/train.py"],
    "assess": ["assess", "{project}/train.py"],
    "port": ["port", "{project}/train.py", "--out", "{out}", "--steps", "2"],
    "tune-model": ["tune", "{project}/net.py:make", "--job-type", "1", "--time-budget", "20s"],
    "tune-precision": [
        "tune", "{project}/net.py:make", "--job-type", "1", "--time-budget", "40s", "--precision", "auto", "--budget",
        "1e-2", "--metric", "{project}/metric.py:worst",
    ],
    "tune-script": ["tune", "{project}/plain.py", "--job-type", "2", "--time-budget", "20s"],
    "bisect": ["accuracy", "bisect", "{project}/plain.py", "--steps", "2", "--out", "{out}"],
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> dict[str, Path]:
    """Folders with planted modules (here, temporary, cache), and others without."""
    made = {name: tmp_path / name for name in ("here", "temporary", "cache", "project", "ran", "data")}
    for folder in made.values():
        folder.mkdir()
    for folder in (
        made["here"],
        made["temporary"],
        made["cache"],
        made["cache"] / "jumar",
        made["cache"] / "jumar/native",
    ):
        folder.mkdir(exist_ok=True)
        for name in {*sys.stdlib_module_names, *OTHERS}:
            (folder / f"{name}.py").write_text(PLANTED, "utf-8")
    for name in ("here", "temporary"):
        made[name].chmod(0o1777)
    (made["project"] / "net.py").write_text(NET, "utf-8")
    (made["project"] / "train.py").write_text(TRAIN, "utf-8")
    (made["project"] / "plain.py").write_text(TRAIN.replace(".cuda()", ""), "utf-8")
    worst = "def worst(outputs, reference):\n    return float((outputs[0] - reference[0]).abs().max())\n"
    (made["project"] / "metric.py").write_text(worst, "utf-8")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_nothing_that_was_planted(place: dict[str, Path], tmp_path: Path, name: str) -> None:
    words = {**{key: str(path) for key, path in place.items()}, "out": str(tmp_path / "out")}
    arguments = [part.format_map(words) for part in COMMANDS[name]]
    environment = {
        **os.environ, "TMPDIR": words["temporary"], "XDG_CACHE_HOME": words["cache"], "XDG_DATA_HOME": words["data"],
        "PLANTED_RAN": words["ran"],
    }  # fmt: skip
    command = children.command(module="jumar", arguments=arguments)
    done = subprocess.run(
        command, cwd=place["here"], env=environment, capture_output=True, text=True, check=False, timeout=500
    )
    assert {path.name: path.read_text() for path in place["ran"].iterdir()} == {}
    assert done.returncode in {0, 1}, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
