"""Trains a model of the scoreboard for a few steps under the observer, healthy or with a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from jumar.capture import record
from jumar.capture.session.vary import is_observers_work, varied
from jumar.recording import Recording

from .models import MODELS, batches


class KernelFault(TorchDispatchMode):
    """Runs `change(func, args, kwargs)` in place of the kernel at the `call`-th call of `operator` in each step.

    Entered before the recording starts, it lies below the observer: what the operator is called with stays
    as it was, like a wrong kernel of a device. `call` None: at every call.
    """

    def __init__(self, operator: str, change: Callable[..., Any], call: int | None, from_step: int = 0) -> None:
        super().__init__()
        self.operator, self.change, self.call, self.from_step = operator, change, call, from_step
        self.num_calls, self.step = 0, -1

    def begin_step(self) -> None:
        self.num_calls, self.step = 0, self.step + 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.name() != self.operator or is_observers_work():
            return func(*args, **kwargs)
        number, self.num_calls = self.num_calls, self.num_calls + 1
        if self.step < self.from_step or (self.call is not None and number != self.call):
            return func(*args, **kwargs)
        return self.change(func, args, kwargs)


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a model is trained. Everything but the fault is a setting that a user could have, too."""

    kind: str
    fault: str = ""
    dropout: float = 0.0
    renamed: bool = False
    sdpa: bool = False
    eval_norm: bool = False
    values: str = "stats"
    levels: tuple[str, ...] = ("module", "op")
    num_steps: int = 3
    seed: int = 0
    data_seed: int = 1
    swapped: bool = False
    """The first two batches change places."""
    threads: int = 1
    mkldnn: bool = True
    autocast: str = ""
    dtype: str = "float32"
    scaler: bool = False
    scale: float = 2.0**10
    device: str = "cpu"
    numerics: str = "exact"
    optimizer: str = "AdamW"
    foreach: bool = False
    hyper: tuple[tuple[str, float], ...] = (("lr", 1e-3),)
    vary: str = ""
    """As of `jumar record --vary`."""
    extra_draw: bool = False
    """A random number more is drawn before each step."""


def recorded(folder: Path, training: Training, below: KernelFault | None = None) -> Recording:
    """Run the training and return its recording."""
    torch.manual_seed(training.seed)
    keywords = {name: getattr(training, name) for name in ("dropout", "renamed")}
    keywords |= {name: True for name in ("sdpa", "eval_norm") if getattr(training, name)}
    model = MODELS[training.kind](training.fault, **keywords).to(getattr(torch, training.dtype))
    with ExitStack() as stack:
        stack.enter_context(_surroundings(training))
        device = torch.device(training.device)
        model = model.to(device).train()
        optimizer = _optimizer(training, model)
        data = batches(training.kind, training.num_steps, training.data_seed)
        if training.swapped:
            data[0], data[1] = data[1], data[0]
        stack.enter_context(below or nullcontext())
        stack.enter_context(record(str(folder), model=model, values=training.values, levels=training.levels))  # type: ignore[arg-type]
        _train(training, model, optimizer, data, below)
    return Recording.open(folder)


def _optimizer(training: Training, model: nn.Module) -> torch.optim.Optimizer:
    kind = getattr(torch.optim, training.optimizer)
    return kind(model.parameters(), foreach=training.foreach, **dict(training.hyper))


def _train(
    training: Training,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: list[tuple[torch.Tensor, torch.Tensor]],
    below: KernelFault | None,
) -> None:
    device = next(model.parameters()).device
    dtype = getattr(torch, training.dtype)
    autocast = getattr(torch, training.autocast) if training.autocast else torch.bfloat16
    scaler = torch.amp.GradScaler(device.type, enabled=training.scaler, init_scale=training.scale)
    on_device = [(x.to(device, dtype if x.is_floating_point() else None), y.to(device)) for x, y in data]
    for inputs, targets in on_device:
        if below is not None:
            below.begin_step()
        if training.extra_draw:
            torch.rand(1)
        optimizer.zero_grad()
        with torch.autocast(device.type, autocast, enabled=bool(training.autocast)):
            logits = model(inputs)
        loss = functional.cross_entropy(logits.flatten(0, -2).float(), targets.flatten())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


@contextmanager
def _surroundings(training: Training) -> Iterator[None]:
    threads, mkldnn = torch.get_num_threads(), torch.backends.mkldnn.enabled
    torch.set_num_threads(training.threads)
    torch._C._set_mkldnn_enabled(training.mkldnn)  # the flags may be frozen by other tests
    try:
        with _numerics(training), varied(training.vary):
            yield
    finally:
        torch.set_num_threads(threads)
        torch._C._set_mkldnn_enabled(mkldnn)


def _numerics(training: Training) -> Any:
    if training.device != "npu":
        return nullcontext()
    import jumar

    return jumar.emulate(numerics=training.numerics, unsupported="fallback")
