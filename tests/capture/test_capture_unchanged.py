"""A recording changes no bit of a run: losses, parameters and generators are those of the run without it."""

from __future__ import annotations

import copy
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from jumar.capture import record
from jumar.recording import Recording, Values

Tensor = torch.Tensor
Step = Callable[[nn.Module, torch.optim.Optimizer, Any, Tensor], Tensor]
VALUES = get_args(Values)


def net(dropout: float = 0.2) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(dropout), nn.LayerNorm(16), nn.Linear(16, 2)
    )


def plain(model: nn.Module, updates: torch.optim.Optimizer, scaler: Any, data: Tensor) -> Tensor:
    loss: Tensor = model(data).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    updates.step()
    return loss


def scaled(model: nn.Module, updates: torch.optim.Optimizer, scaler: Any, data: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss: Tensor = model(data).float().square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(updates)
    scaler.step(updates)
    scaler.update()
    return loss


def recomputed(model: nn.Module, updates: torch.optim.Optimizer, scaler: Any, data: Tensor) -> Tensor:
    loss: Tensor = checkpoint(model, data, use_reentrant=False).square().mean()
    loss.backward()
    updates.step()
    return loss


def run(step: Step) -> list[Any]:
    """Train for a few steps; the second has an overflow."""
    model = net()
    updates = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    losses = []
    for number in range(4):
        updates.zero_grad()
        data = torch.randn(8, 6) * (float("inf") if number == 1 and step is scaled else 1.0)
        losses.append(step(model, updates, scaler, data).item())
    state = [tensor.tolist() for tensor in model.state_dict().values()]
    return [repr(losses), repr(state), torch.rand(3).tolist()]


@pytest.mark.parametrize("step", [plain, scaled, recomputed])
@pytest.mark.parametrize("values", VALUES)
def test_a_recorded_run_is_the_same_to_the_bit(tmp_path: Path, values: Values, step: Step) -> None:
    expected = run(step)
    with record(tmp_path / "r", values=values, levels=("module", "op", "optimizer")):
        found = run(step)
    assert found == expected
    assert Recording.open(tmp_path / "r").steps() == [0, 1, 2, 3]


@pytest.mark.parametrize("values", VALUES)
def test_nothing_is_left_on_the_runs_tensors_and_memory_is_freed_as_it_would_be(tmp_path: Path, values: Values) -> None:
    model = net()
    updates = torch.optim.AdamW(model.parameters())
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    references = []
    with record(tmp_path / "r", values=values):
        for _ in range(2):
            updates.zero_grad()
            hidden = model(torch.ones(3, 6))
            references.append(weakref.ref(hidden.untyped_storage()))
            plain(model, updates, None, torch.ones(3, 6))
            del hidden
            assert references[-1]() is None
    copy.deepcopy(model)
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before
    assert all(not vars(parameter) for parameter in model.parameters())


RANKS = """
import os, sys
import torch, torch.distributed as dist, torch.multiprocessing as mp
sys.path.insert(0, TESTS)
from test_capture_unchanged import net, plain

def worker(rank, out):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + out + "-store", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(net())
    updates = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    torch.manual_seed(rank)
    losses = []
    for _ in range(3):
        updates.zero_grad()
        losses.append(plain(model, updates, None, torch.randn(8, 6)).item())
    torch.save((losses, model.state_dict()), out + str(rank))
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(worker, (sys.argv[1],), nprocs=2)
"""


def ranks(tmp_path: Path, values: str) -> list[str]:
    """What two ranks of DistributedDataParallel over gloo end with."""
    script, out = tmp_path / "ranks.py", tmp_path / values
    script.write_text(RANKS.replace("TESTS", repr(str(Path(__file__).parent))))
    start = [] if values == "off" else ["-m", "jumar", "record", "--values", values, "-o", f"{out}-recording"]
    subprocess.run([sys.executable, *start, str(script), str(out)], check=True, timeout=240)
    found = []
    for rank in range(2):
        losses, state = torch.load(f"{out}{rank}")
        found.append(repr((losses, {name: tensor.tolist() for name, tensor in state.items()})))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("values", ["stats", "sketch", "tensors"])
def test_ranks_of_a_distributed_run_are_the_same_to_the_bit(tmp_path: Path, values: str) -> None:
    assert ranks(tmp_path, values) == ranks(tmp_path, "off")
    recording = Recording.open(tmp_path / f"{values}-recording")
    assert [recording.steps(rank) for rank in (0, 1)] == [[0, 1, 2]] * 2
    assert {row.kind for row in recording.rows(2, 1)} >= {"op", "module", "loss", "optimizer", "parameter"}
