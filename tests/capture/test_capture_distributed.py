"""Tensors that several ranks share: what is recorded of them is what this rank holds, once it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.capture import RecordPlan, launch
from jumar.device import DevicePlan
from jumar.recording import Recording

SCRIPT = """
import os, torch
import torch.distributed as dist, torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def worker(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallelize_module(model, init_device_mesh("cpu", (2,)), plan)
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        updates.zero_grad()
        loss = model(torch.ones(2, 4)).sum()
        loss.backward()
        updates.step()
        dist.broadcast_object_list([store], src=0)
        dist.all_gather([torch.empty(3) for _ in range(2)], torch.ones(3))
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, (os.path.abspath("store"),), nprocs=2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("native", ["1", "0"])
def test_rows_of_shared_tensors_hold_this_ranks_values_and_none_before_they_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: str
) -> None:
    monkeypatch.setenv("JUMAR_RECORD_NATIVE", native)
    (tmp_path / "train.py").write_text(SCRIPT)
    result = launch(
        tmp_path / "train.py",
        device=DevicePlan(kind="cpu"),
        record=RecordPlan(out=str(tmp_path / "recording"), values="stats"),
        stop_after=None,
        cwd=tmp_path,
        log=tmp_path / "run.log",
        timeout_s=120.0,
    )
    assert result.returncode == 0, result.log.read_text()
    recording = Recording.open(tmp_path / "recording")
    before, after = recording.rows(0, rank=1), recording.rows(1, rank=1)
    products = [row for row in after if row.name == "aten::addmm"]
    assert [row.outputs[0].shape for row in products] == [(2, 4), (2, 4)]  # the columns of this rank, and its part
    assert all(tensor.mean is not None for row in products for tensor in (*row.inputs, *row.outputs))
    weights = [[row.outputs[0].l2 for row in rows if row.kind == "parameter"] for rows in (before, after)]
    assert all(None not in found for found in weights)
    assert weights[0] != weights[1]  # what an update has written is read anew
    arriving = [row for row in after if row.name.startswith("_c10d_functional::")]
    assert arriving
    assert not any(tensor.mean is not None for row in arriving for tensor in row.outputs)
    of_gloo = [row for row in after if row.name in {"aten::select.int", "aten::copy_"} and not row.module_path]
    assert of_gloo == []  # copies that Gloo makes on a thread of its own
    assert "aten::cat" not in {row.name for row in after if row.phase == "forward"}  # of a pickled object
