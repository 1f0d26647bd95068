"""`jumar port` of what a launcher, a module or a shell script starts: all ranks, every file that they run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jumar.recording import Recording

STACKS = Path(__file__).parents[2] / "examples" / "stacks"
TRAIN = """
import os

import torch
import torch.distributed as dist

from core.model import make


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(make().cuda(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = model(torch.full((2, 3), float(step + rank)).cuda(rank)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""
MODEL = """
import torch


def make():
    return torch.nn.Linear(3, 2).cuda()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {
        "tools/train.py": TRAIN,
        "core/__init__.py": "",
        "core/model.py": MODEL,
        "core/train.py": TRAIN,
        "tools/train.sh": "export CUDA_VISIBLE_DEVICES=0,1\nexport PYTHONPATH=.\n"
        "torchrun --standalone --nproc-per-node 2 tools/train.py\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".git").mkdir()  # paths of the patch begin here
    return tmp_path


def ported(project: Path, *words: str, **variables: str) -> tuple[str, dict[str, Any]]:
    command = [sys.executable, "-c", "from jumar.cli.main import run; run()", "port", "--json", "--steps", "2", *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1", **variables}
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode in {0, 1, 2}, done.stderr[-3000:]
    return (project / "jumar-port" / "changes.patch").read_text(), json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "variables", "changed"),
    [
        (
            ["torchrun", "--standalone", "--nproc-per-node", "2", "tools/train.py"],
            {"PYTHONPATH": "."},
            {"tools/train.py", "core/model.py"},
        ),
        (
            ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "core.train"],
            {},
            {"core/train.py", "core/model.py"},
        ),
        (["bash", "tools/train.sh"], {}, {"tools/train.py", "tools/train.sh", "core/model.py"}),
    ],
    ids=["torchrun", "module", "shell"],
)
def test_every_file_of_every_rank_is_converted_and_compared(project, words, variables, changed) -> None:
    patch, answer = ported(project, *words, **variables)
    errors = [finding for finding in answer["findings"] if finding["severity"] == "error"]
    assert errors == []
    assert {line.removeprefix("+++ b/") for line in patch.splitlines() if line.startswith("+++ ")} == changed
    for side in ("reference", "npu"):
        recording = Recording.open(project / "jumar-port" / side)
        assert (recording.ranks, [recording.steps(rank) for rank in (0, 1)]) == ([0, 1], [[0, 1], [0, 1]])
    devices = {tensor.device for rank in (0, 1) for row in recording.rows(0, rank) for tensor in row.outputs}
    assert {"npu:0", "npu:1"} <= devices


@pytest.mark.slow
def test_a_script_for_a_launcher_is_told_the_line_that_works(project: Path) -> None:
    _, answer = ported(project, "core/train.py", PYTHONPATH=".")
    finding = next(one for one in answer["findings"] if one["code"] == "JM901")
    assert "torchrun --standalone --nproc-per-node 2 core/train.py" in finding["action"]


@pytest.mark.slow
@pytest.mark.parametrize(("script", "status"), [("sharded", "fine"), ("tensor_parallel", "attention")])
def test_parameters_that_ranks_share_are_compared(project: Path, script: str, status: str) -> None:
    shutil.copy(STACKS / f"{script}.py", project)
    _, answer = ported(project, "torchrun", "--standalone", "--nproc-per-node", "2", f"{script}.py")
    verdict = answer["page"]["verdict"]
    assert verdict["status"] == status, verdict
    assert "4 steps and 4 losses compared" in verdict["headline"]
    assert "every compared operator within tolerance" in verdict["headline"]
    errors = [finding for finding in answer["findings"] if finding["severity"] == "error"]
    assert not errors if status == "fine" else all("vendor" in finding["message"] for finding in errors)


@pytest.mark.slow
def test_the_error_of_the_rank_that_fails_is_the_verdict(project: Path) -> None:
    failing = TRAIN.replace("    torch.manual_seed(0)", "    if rank:\n        raise ValueError('planted')")
    (project / "tools" / "train.py").write_text(failing)
    _, answer = ported(project, "torchrun", "--standalone", "--nproc-per-node", "2", "tools/train.py", PYTHONPATH=".")
    verdict = answer["page"]["verdict"]
    assert verdict["status"] == "failed"
    assert verdict["headline"].endswith("after 0 steps: ValueError: planted")
