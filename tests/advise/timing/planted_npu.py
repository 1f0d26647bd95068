"""Planted bottlenecks on the emulated NPU: `python planted_npu.py FOLDER` writes a profile for each, and a clean one.

A process of its own: the device would stay up for other tests. Its profiles hold estimates and are marked so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from jumar.device import DevicePlan, activate

Step = Callable[[nn.Module, torch.Tensor], None]
NUM_STEPS = 5


def _nothing(model: nn.Module, x: torch.Tensor) -> None:
    pass


def _reads_each_norm(model: nn.Module, x: torch.Tensor) -> None:
    for _ in range(2):
        sum(part.grad.norm().item() for part in model.parameters() if part.grad is not None)


def _runs_on_the_host_processor(model: nn.Module, x: torch.Tensor) -> None:
    for _ in range(10):
        torch.unique(x[:64] > 0)


def _copies_transposed(model: nn.Module, x: torch.Tensor) -> None:
    for _ in range(40):
        x = x.view(8, 32, -1).transpose(1, 2).contiguous().view(x.shape)


def _convolutional() -> tuple[nn.Module, torch.Tensor]:
    layers = [layer for _ in range(3) for layer in (nn.Conv2d(12, 12, 3, padding=1), nn.ReLU())]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 4)), torch.randn(4, 12, 16, 16)


def _perceptron() -> tuple[nn.Module, torch.Tensor]:
    layers = [layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.ReLU())]
    return nn.Sequential(*layers), torch.randn(256, 256)


FAULTS: dict[str, tuple[Callable[[], tuple[nn.Module, torch.Tensor]], Step, str]] = {
    "norms read one by one": (_perceptron, _reads_each_norm, "JM453"),
    "kernels on the host processor": (_perceptron, _runs_on_the_host_processor, "JM429"),
    "transposed copies": (_perceptron, _copies_transposed, "JM456"),
    "formats converted around convolutions": (_convolutional, _nothing, "JM430"),
    "parameters updated one by one": (_perceptron, _nothing, "JM433"),
}
"""Fault -> model, what each step does besides, the rule that must find it."""


def write(folder: Path, name: str) -> None:
    """Train for some steps under torch_npu's profiler; `clean` is the perceptron with its fused optimizer."""
    from jumar.npu import profiler

    make, extra, _ = FAULTS.get(name, (_perceptron, _nothing, ""))
    torch.manual_seed(0)
    model, x = make()
    model, x = model.npu(), x.npu()  # type: ignore[attr-defined]
    foreach = name != "parameters updated one by one"
    optimizer = torch.optim.Adam(model.parameters(), foreach=foreach)
    config = profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level1)
    with profiler.profile(
        schedule=profiler.schedule(wait=0, warmup=1, active=NUM_STEPS, repeat=1),
        on_trace_ready=profiler.tensorboard_trace_handler(str(folder / name), worker_name="w"),
        record_shapes=True, with_stack=True, experimental_config=config,
    ) as running:  # fmt: skip
        for _ in range(NUM_STEPS + 1):
            model(x).square().mean().backward()
            optimizer.step()
            extra(model, x)
            optimizer.zero_grad()
            running.step()


if __name__ == "__main__":
    activate(DevicePlan(real="never", soc="Ascend910A", unsupported="fallback"))
    for fault in ("clean", *FAULTS):
        write(Path(sys.argv[1]), fault)
