"""Planted bottlenecks: small models that train for some steps under torch.profiler, one fault at a time.

`profile(path, model, fault)` writes the trace that a user would have. A fault changes one thing of the clean loop. What
it must be found as stands beside it, so that the corpus can be read as a table.
"""

from __future__ import annotations

import contextlib
import gc
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, schedule
from torch.utils.data import DataLoader, Dataset

import jumar

NUM_STEPS = 9
BATCH = 8


class Attention(nn.Module):
    """Self-attention with the fused operator, or in parts."""

    def __init__(self, width: int, heads: int, fused: bool = True) -> None:
        super().__init__()
        self.qkv, self.out, self.heads, self.fused = nn.Linear(width, 3 * width), nn.Linear(width, width), heads, fused

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if self.fused:
            mixed = functional.scaled_dot_product_attention(q, k, v)
        else:
            mixed = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), -1) @ v
        out: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


class Block(nn.Module):
    """A transformer's block."""

    def __init__(self, width: int, fused: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mixes = Attention(width, 4, fused)
        self.feeds = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.mixes(self.norms[0](x))
        result: torch.Tensor = x + self.feeds(self.norms[1](x))
        return result


class Recurrent(nn.Module):
    """An LSTM over embedded tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embeds, self.runs, self.head = nn.Embedding(100, 64), nn.LSTM(64, 64, batch_first=True), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.runs(self.embeds(x))[0][:, -1])
        return result


def _convolutional() -> nn.Module:
    parts = [nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()) for _ in range(3)]
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), *parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    )


def _transformer(fused: bool = True) -> nn.Module:
    return nn.Sequential(*(Block(64, fused) for _ in range(2)), nn.Flatten(1), nn.LazyLinear(10))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "perceptron": (
        lambda: nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)),
        lambda: torch.randn(128),
    ),
    "convolutional": (_convolutional, lambda: torch.randn(3, 24, 24)),
    "transformer": (_transformer, lambda: torch.randn(64, 64)),
    "recurrent": (Recurrent, lambda: torch.randint(100, (24,))),
}


class Samples(Dataset[Any]):
    """Samples of a model, each as slow as asked."""

    def __init__(self, make: Callable[[], torch.Tensor], length: int, sleep_s: float) -> None:
        self.samples, self.length, self.sleep_s = [make() for _ in range(BATCH)], length, sleep_s

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.sleep_s:
            time.sleep(self.sleep_s)
        return self.samples[index % BATCH], index % 10


@dataclass(slots=True)
class Loop:
    """What a fault may change of the clean loop."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    sample_sleep_s: float = 0.0
    num_workers: int = 0
    drop_last: bool = True
    before: Callable[[int, Loop], None] = lambda step, loop: None
    """Called before each step."""
    after: Callable[[int, Loop], None] = lambda step, loop: None
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = functional.cross_entropy
    num_samples: int = BATCH * NUM_STEPS


def profile(
    path: Path, model: str, change: Callable[[Loop], Loop | None] | None = None, *, by_jumar: bool = False
) -> Path:
    """Train a model for some steps with one thing changed; write its profile, by torch or by Jumar; return the path."""
    torch.manual_seed(0)
    make, sample = MODELS[model]
    net = make()
    net(torch.stack([sample(), sample()]))  # lazy layers get their sizes
    loop = Loop(net, torch.optim.AdamW(net.parameters(), fused=True))
    if change is not None:
        loop = change(loop) or loop
    data = Samples(sample, loop.num_samples, loop.sample_sleep_s)
    loader = DataLoader(data, BATCH, num_workers=loop.num_workers, drop_last=loop.drop_last)
    plan = schedule(wait=0, warmup=1, active=NUM_STEPS - 1, repeat=1)
    options: dict[str, Any] = {"activities": [ProfilerActivity.CPU], "schedule": plan, "record_shapes": True}
    export = lambda profiler: profiler.export_chrome_trace(str(path))  # noqa: E731
    with contextlib.ExitStack() as stack:
        by_torch = torch.profiler.profile(**options, on_trace_ready=export)
        own = jumar.profile(path, schedule=(0, 1, NUM_STEPS - 1))
        profiler: Any = stack.enter_context(own if by_jumar else by_torch)
        for step, (inputs, targets) in enumerate(loader):
            loop.before(step, loop)
            loss = loop.loss(loop.model(inputs), targets)
            loop.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            loop.optimizer.step()
            loop.after(step, loop)
            profiler.step()
    return path


def slow_samples(loop: Loop) -> None:
    """Every sample takes 4 ms."""
    loop.sample_sleep_s = 0.004


def slow_samples_in_workers(loop: Loop) -> None:
    """Every sample takes 20 ms in one worker."""
    loop.sample_sleep_s, loop.num_workers = 0.02, 1


def stall_every_third(loop: Loop) -> None:
    """Every third step sleeps, as for a checkpoint on a slow disk."""
    loop.after = lambda step, loop: time.sleep(0.2) if step % 3 == 2 else None


def collect_garbage(loop: Loop) -> None:
    """Many Python objects, and a full collection in each step."""
    kept = [[i] for i in range(400_000)]

    def after(_: int, __: Loop) -> None:
        gc.collect()
        assert kept

    loop.after = after


def double_precision(loop: Loop) -> Loop:
    """The whole model in float64."""
    net = loop.model.double()
    inner = net.forward
    net.forward = lambda x: inner(x.double() if x.is_floating_point() else x)
    return Loop(net, torch.optim.AdamW(net.parameters(), fused=True))


def attention_in_parts(loop: Loop) -> Loop:
    """Softmax of a product times a product."""
    net = _transformer(fused=False)
    net(torch.randn(2, 64, 64))
    return Loop(net, torch.optim.AdamW(net.parameters(), fused=True))


def one_by_one(loop: Loop) -> Loop:
    """Many small parameters, each updated by operators of its own."""
    extra = nn.ParameterList([nn.Parameter(torch.randn(16)) for _ in range(60)])
    inner = loop.model.forward
    loop.model.forward = lambda x: inner(x) + 0 * sum(part.sum() for part in extra)
    return Loop(loop.model, torch.optim.AdamW([*loop.model.parameters(), *extra], foreach=False))


def recompiles(loop: Loop) -> None:
    """torch.compile, and another length in each step."""
    torch._dynamo.reset()
    compiled = torch.compile(loop.model, backend="eager", dynamic=False)
    counter = iter(range(BATCH, 1, -1))
    loop.model = lambda x: compiled(x[: next(counter, 2)])  # type: ignore[assignment]
    loop.loss = lambda out, target: functional.cross_entropy(out, target[: len(out)])


class Wrapped(nn.Module):
    """A model with a part in front of it, 24 times: the forward pass of a deep model has one in each layer."""

    def __init__(self, model: nn.Module, part: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.model, self.part = model, part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float().repeat(4, *[1] * (x.dim() - 1))
        for _ in range(24):
            wide = self.part(wide)
        result: torch.Tensor = self.model(x) + 0 * wide.mean()
        return result


def in_front(part: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Loop], Loop]:
    """Return the change that puts a part in front of the model."""

    def change(loop: Loop) -> Loop:
        return Loop(Wrapped(loop.model, part), loop.optimizer)

    return change


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    """RMSNorm as in Llama's code."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    """LayerNorm as a textbook writes it."""
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt((x - mean).pow(2).mean(-1, keepdim=True) + 1e-6)


def gelu(x: torch.Tensor) -> torch.Tensor:
    """GELU as in the first code of GPT-2."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


def silu(x: torch.Tensor) -> torch.Tensor:
    """SiLU by its definition."""
    return x * torch.sigmoid(x)


def rotary(x: torch.Tensor) -> torch.Tensor:
    """A rotary embedding as in Llama's code."""
    half = x.shape[-1] // 2
    cos = sin = x.new_full((x.shape[-1],), 0.7)
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


def values_read_one_by_one(loop: Loop) -> None:
    """The norm of each gradient, and of each row, is read by itself."""

    def after(_: int, loop: Loop) -> None:
        sum(
            row.norm().item()
            for p in loop.model.parameters()
            if p.grad is not None
            for row in p.grad.flatten(0, -1)[:99]
        )

    loop.after = after


FAULTS: dict[str, tuple[Callable[[Loop], Loop | None], str, tuple[str, ...]]] = {
    "slow samples": (slow_samples, "JM421", tuple(MODELS)),
    "slow samples in a worker": (slow_samples_in_workers, "JM421", tuple(MODELS)),
    "a stall in every third step": (stall_every_third, "JM420", tuple(MODELS)),
    "garbage collected in each step": (collect_garbage, "JM434", ("perceptron", "transformer")),
    "float64": (double_precision, "JM427", ("perceptron", "convolutional", "transformer")),
    "attention in parts": (attention_in_parts, "JM432", ("transformer",)),
    "parameters updated one by one": (one_by_one, "JM433", ("perceptron", "recurrent")),
    "RMSNorm by hand": (in_front(rms_norm), "JM450", ("perceptron", "transformer")),
    "LayerNorm by hand": (in_front(layer_norm), "JM450", ("convolutional", "transformer")),
    "GELU by hand": (in_front(gelu), "JM451", ("perceptron", "transformer")),
    "SiLU by hand": (in_front(silu), "JM451", ("convolutional", "recurrent")),
    "a rotary embedding by hand": (in_front(rotary), "JM452", ("perceptron", "transformer")),
    "values read one by one": (values_read_one_by_one, "JM453", ("perceptron", "convolutional")),
    "compiled anew for each length": (recompiles, "JM424", ("perceptron", "convolutional")),
}
"""Fault -> what it changes, the rule that must find it, the models it is planted in."""


def cases() -> Iterator[tuple[str, str, str]]:
    """Yield fault, model and the rule that must find it."""
    for fault, (_, code, models) in FAULTS.items():
        yield from ((fault, model, code) for model in models)
