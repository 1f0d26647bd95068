"""One rank on its own, as the launcher starts the second of two: FSDP and DTensors on npu:1. Prints JSON."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

from torch.distributed.fsdp import fully_shard  # noqa: E402  # as in a script: after the device is there
from torch.distributed.tensor import DTensor, Shard, init_device_mesh  # noqa: E402

npu = torch.get_device_module("npu")


def train(device: torch.device) -> dict[str, object]:
    with torch.device("meta"):
        model = nn.Linear(4, 4)
    fully_shard(model)
    model.to_empty(device=device)
    nn.init.uniform_(model.weight)
    nn.init.zeros_(model.bias)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(2, 4, device=device)).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    weight = model.weight
    return {
        "current device": npu.current_device(),
        "devices": sorted({str(weight.device), str(weight.to_local().device), str(weight.grad.to_local().device)}),
        "device of the norm": str(weight.grad.norm().to(device).to_local().device),
    }


def draw() -> list[float]:
    mesh = init_device_mesh("npu", (1,))
    torch.manual_seed(3)
    return DTensor.from_local(torch.empty(3, device="npu"), mesh, [Shard(0)]).uniform_().to_local().tolist()


def main() -> None:
    os.environ.update(LOCAL_RANK="1")
    found: dict[str, object] = {"used at first": npu.is_initialized()}
    with tempfile.TemporaryDirectory() as folder:
        device = torch.device("npu:1")
        dist.init_process_group("hccl", store=dist.FileStore(str(Path(folder) / "store"), 1), rank=0, world_size=1)
        found |= train(device)
        found["drawn twice the same"] = draw() == draw()
        found["used at last"] = npu.is_initialized()
        dist.destroy_process_group()
    print(json.dumps(found))


main()
