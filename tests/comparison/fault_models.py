"""Small networks with known faults, trained under the observer on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from jumar.capture import record
from jumar.recording import Recording


class Fault(TorchDispatchMode):
    """Runs `change(func, args, kwargs)` in place of the kernels of `operator`, from its n-th call on.

    Entered before the recording starts, it lies below the observer: what the operator is called with
    stays as it was, like a wrong kernel of a device.
    """

    def __init__(self, operator: str, change: Callable[..., Any], first_call: int = 0) -> None:
        super().__init__()
        self.operator, self.change, self.first_call, self.num_calls = operator, change, first_call, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.name() != self.operator:
            return func(*args, **kwargs)
        self.num_calls += 1
        if self.num_calls <= self.first_call:
            return func(*args, **kwargs)
        return self.change(func, args, kwargs)


class Block(nn.Module):
    def __init__(self, width: int, fault: str = "", dropout: float = 0.0) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(width, eps=1e-3 if fault == "layer-norm epsilon" else 1e-5)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.act = nn.GELU(approximate="tanh" if fault == "gelu variant" else "none")
        self.fc2 = nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)
        self.fault = fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.ln1(x)).split(width, 2)
        q, k, v = (part.view(batch, length, 4, width // 4).transpose(1, 2) for part in parts)
        scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(width // 4))
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        weights = functional.softmax(scores.masked_fill(~mask, float("-inf")), -1)
        x = x + self.proj((weights @ v).transpose(1, 2).reshape(batch, length, width))
        hidden = self.act(self.fc1(self.ln2(x)))
        if self.fault == "extra scale":
            hidden = hidden * 1.01
        if self.fault == "flipped sequence":
            hidden = hidden.flip(1)
        return x + self.drop(self.fc2(hidden))


class Gpt(nn.Module):
    def __init__(self, fault: str = "", dropout: float = 0.0) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(128, 32), nn.Embedding(16, 32)
        self.blocks = nn.ModuleList(Block(32, fault if layer == 1 else "", dropout) for layer in range(2))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 128, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Cnn(nn.Module):
    def __init__(self, fault: str = "") -> None:
        super().__init__()

        def layer(channels_in: int, channels: int, stride: int, eps: float = 1e-5) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(channels_in, channels, 3, stride, 1), nn.BatchNorm2d(channels, eps=eps), nn.ReLU(inplace=True)
            )

        self.stem = layer(3, 16, 1)
        self.layer1 = layer(16, 16, 1, eps=1e-2 if fault == "batch-norm epsilon" else 1e-5)
        self.layer2 = layer(16, 32, 2)
        self.pool, self.fc = nn.MaxPool2d(2), nn.Linear(32, 10)
        self.fault = fault

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.stem(images)
        x = self.layer1(x) + x
        if self.fault == "extra scale":
            x = x * 1.01
        return self.fc(self.pool(self.layer2(x)).mean((2, 3)))


def batches(kind: str, num_steps: int, seed: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    if kind == "gpt":
        draw = lambda: torch.randint(0, 128, (4, 16), generator=generator)  # noqa: E731 - two draws a step
        return [(draw(), draw()) for _ in range(num_steps)]
    return [
        (torch.randn(8, 3, 16, 16, generator=generator), torch.randint(0, 10, (8,), generator=generator))
        for _ in range(num_steps)
    ]


_references: dict[tuple[object, ...], Recording] = {}


def reference_of(kind: str, folder: Path, **settings: Any) -> Recording:
    """Return the recording of the run without a fault; runs with the same settings are made once."""
    key = (kind, *sorted(settings.items()))
    if key not in _references:
        _references[key] = recorded(folder / f"reference-{len(_references)}", kind, **settings)
    return _references[key]


def recorded(
    folder: Path,
    kind: str,
    *,
    fault: str = "",
    below: Fault | None = None,
    values: str = "stats",
    levels: tuple[str, ...] = ("module", "op"),
    num_steps: int = 1,
    seed: int = 0,
    data_seed: int = 1,
    other_kernels: bool = False,
    foreach: bool = False,
    bfloat16: bool = False,
    dropout: float = 0.0,
    wrapper: Callable[[nn.Module], nn.Module] = lambda model: model,
) -> Recording:
    """Train a network for a few steps and return its recording.

    `other_kernels` stands for another healthy device: other convolution and product kernels.
    """
    torch.manual_seed(seed)
    model = wrapper(Gpt(fault, dropout) if kind == "gpt" else Cnn(fault))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=foreach)
    data = batches(kind, num_steps, data_seed)
    before = torch.backends.mkldnn.enabled
    torch._C._set_mkldnn_enabled(not other_kernels)  # the flags may be frozen by other tests
    try:
        with below or nullcontext(), record(str(folder), model=model, values=values, levels=levels):  # type: ignore[arg-type]
            for inputs, targets in data:
                optimizer.zero_grad()
                with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                    logits = model(inputs)
                    loss = functional.cross_entropy(logits.flatten(0, -2).float(), targets.flatten())
                loss.backward()
                optimizer.step()
    finally:
        torch._C._set_mkldnn_enabled(before)
    return Recording.open(folder)
