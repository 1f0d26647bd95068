"""A profile that the emulated `torch_npu.profiler` writes: what the tests of readers read back."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

from jumar.npu import profiler as torch_npu_profiler  # noqa: E402 - needs the device

P = torch_npu_profiler
NUM_STEPS = 2
"""Steps that are recorded."""
NUM_LINEAR = 3
"""Linear layers of the network: each is one `aten::addmm` a step."""


def write(folder: Path) -> Path:
    """Train a small network with everything on; return the folder of the profile."""
    torch.manual_seed(0)
    layers = [layer for _ in range(NUM_LINEAR) for layer in (nn.Linear(8, 8), nn.ReLU())]
    model = nn.Sequential(*layers).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images = torch.randn(4, 8)
    with P.profile(
        schedule=P.schedule(wait=1, warmup=1, active=NUM_STEPS, repeat=1),
        on_trace_ready=P.tensorboard_trace_handler(str(folder), worker_name="worker"),
        record_shapes=True, profile_memory=True, with_stack=True,
        experimental_config=P._ExperimentalConfig(
            profiler_level=P.ProfilerLevel.Level1, aic_metrics=P.AiCMetrics.PipeUtilization
        ),
    ) as prof:  # fmt: skip
        for _ in range(NUM_STEPS + 2):
            optimizer.zero_grad()
            loss = model(images.npu()).square().mean()
            loss.backward()
            optimizer.step()
            loss.item()
            prof.step()
    (found,) = folder.glob("*_ascend_pt")
    return found
