"""Fused optimizers under DistributedDataParallel: its reducer writes the gradients that were combined."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

SCRIPT = """
import json, os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def batch(step):
    return torch.randn(8, 6, generator=torch.Generator().manual_seed(step))


def worker(rank, port):
    import torch_npu
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("hccl", rank=rank, world_size=2)
    device = torch.device("npu", rank)
    torch.npu.set_device(device)
    model = DistributedDataParallel(network().to(device), device_ids=[rank])
    optimizer = torch_npu.optim.NpuFusedAdamW(model.parameters(), lr=0.01)
    for step in range(5):
        optimizer.zero_grad()
        model(batch(step).chunk(2)[rank].to(device)).pow(2).mean().backward()
        optimizer.step()
    alone = network()
    plain = torch.optim.AdamW(alone.parameters(), lr=0.01)
    for step in range(5):
        plain.zero_grad()
        alone(batch(step)).pow(2).mean().backward()
        plain.step()
    worst = max((a.detach().cpu() - b).abs().max().item() for a, b in zip(model.parameters(), alone.parameters()))
    sys.stdout.write(json.dumps({"rank": rank, "worst": worst}) + "\\n")  # one write: two ranks share the pipe
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, (sys.argv[1],), nprocs=2)
"""


@pytest.mark.slow
def test_two_ranks_train_as_one_process_on_both_batches(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    file = tmp_path / "ranks.py"
    file.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(file), port],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert sorted(item["rank"] for item in found) == [0, 1]
    assert max(item["worst"] for item in found) < 1e-5
