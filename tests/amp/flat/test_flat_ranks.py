"""Optimizers over flat buffers under DistributedDataParallel; FullyShardedDataParallel is refused."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

DDP = """
import json, os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from jumar.amp import optimizers


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 40000), nn.Tanh(), nn.Linear(40000, 3))


def batch(step):
    return torch.randn(8, 6, generator=torch.Generator().manual_seed(step))


def train(model, optimizer, batches):
    for step in range(4):
        optimizer.zero_grad()
        model(batches(step)).pow(2).mean().backward()
        optimizer.step()


def worker(rank, port):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    worst = {}
    for bucket_view in (False, True):
        inner = network()
        model = DistributedDataParallel(inner, gradient_as_bucket_view=bucket_view)
        train(model, optimizers.AdamW(inner.parameters(), lr=0.01), lambda step: batch(step).chunk(2)[rank])
        alone = network()
        train(alone, torch.optim.AdamW(alone.parameters(), lr=0.01), batch)
        pairs = zip(inner.parameters(), alone.parameters())
        worst[str(bucket_view)] = max((a.detach() - b.detach()).abs().max().item() for a, b in pairs)
    sys.stdout.write(json.dumps({"rank": rank, "worst": worst}) + "\\n")  # one write: two ranks share the pipe
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, (sys.argv[1],), nprocs=2)
"""

FSDP = """
import os, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from jumar.amp import optimizers
from jumar.amp.flat import combine
from jumar.base.errors import InputError

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1])
dist.init_process_group("gloo", rank=0, world_size=1)
makes = {
    "flat": lambda: FullyShardedDataParallel(nn.Linear(4, 4), device_id=torch.device("cpu")),
    "original": lambda: FullyShardedDataParallel(nn.Linear(4, 4), use_orig_params=True, device_id=torch.device("cpu")),
    "second": lambda: fully_shard(nn.Linear(4, 4), mesh=dist.device_mesh.init_device_mesh("cpu", (1,))),
}
for name, make in makes.items():
    model = make()
    try:
        optimizers.AdamW(model.parameters())
    except InputError as error:
        print(name, "refused:", error)
    print(name, "combine:", combine(torch.optim.AdamW(model.parameters())).optimizer)
dist.destroy_process_group()
"""


def run(tmp_path, script: str) -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    file = tmp_path / "ranks.py"
    file.write_text(script)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(file), port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
def test_two_ranks_train_as_one_process_with_and_without_bucket_views(tmp_path):
    found = [json.loads(line) for line in run(tmp_path, DDP).splitlines() if line.startswith("{")]
    assert sorted(item["rank"] for item in found) == [0, 1]
    assert {name for item in found for name in item["worst"]} == {"False", "True"}
    assert max(worst for item in found for worst in item["worst"].values()) < 1e-5


@pytest.mark.slow
def test_fully_sharded_parameters_are_refused_in_one_sentence(tmp_path):
    lines = run(tmp_path, FSDP).splitlines()
    for name in ("flat", "original", "second"):
        assert any(line.startswith(f"{name} refused:") and "use torch's own optimizer" in line for line in lines)
        assert f"{name} combine: None" in lines
