"""Two real ranks: the one that sleeps is named with its collective, and ranks that work alike are not accused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.advise.look import look

pytestmark = pytest.mark.slow

SCRIPT = """
import sys, time, torch, torch.distributed as dist
from torch import nn
import jumar

torch.set_num_threads(1)
dist.init_process_group("gloo")
layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)]
model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with jumar.profile("p", steps=(2, 9)):
    for step in range(11):
        if dist.get_rank() == 1:
            time.sleep(float(sys.argv[1]))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(32, 64)), torch.randint(0, 10, (32,))).backward()
        optimizer.step()
dist.destroy_process_group()
time.sleep(0.1)
"""
TRIES = 3
"""A busy machine makes one rank late by itself: it counts as accused when it always is."""


def named(folder: Path, seconds: float) -> dict[str, object]:
    """Train two ranks, the second one sleeping in each step; return rule -> rank that it names."""
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    words = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py", str(seconds))
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "JUMAR_DEVICE_PLAN": ""}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, *_ = look(folder / "p")
    return {one.code: one.evidence["rank"] for one in first.findings if one.code in {"JM440", "JM441"}}


def test_the_rank_that_sleeps_is_named(tmp_path: Path) -> None:
    assert named(tmp_path / "late", 0.03) == {"JM440": 1, "JM441": 1}


def test_ranks_that_work_alike_are_not_accused(tmp_path: Path) -> None:
    accused = [set(named(tmp_path / f"alike {number}", 0.0).items()) for number in range(TRIES)]
    assert not set.intersection(*accused)
