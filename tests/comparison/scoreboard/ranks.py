"""A training of two ranks that average their gradients, or do not."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional

from jumar.capture.plans.plan import RecordPlan
from jumar.capture.session.session import Session
from jumar.capture.session.settings import run_info
from jumar.recording import Recording, RecordingWriter

from .models import Gpt, batches
from .training import KernelFault

NUM_RANKS = 2


def recorded_ranks(folder: Path, how: str, values: str, seed: int) -> Recording:
    """Train on two ranks and return the recording. `how`: reduced, dropped (never called), ignored (by the kernel)."""
    plan = RecordPlan(out=str(folder), values=values)  # type: ignore[arg-type]  # a word of the command line
    RecordingWriter(folder, replace(run_info(plan, None), num_ranks=NUM_RANKS))
    with TemporaryDirectory() as meeting:
        arguments = (str(folder), f"{meeting}/store", how, values, seed)
        torch.multiprocessing.spawn(_rank, arguments, nprocs=NUM_RANKS)
    return Recording.open(folder)


def without_effect(func: Any, args: Any, kwargs: Any) -> Any:
    """A collective that sums copies and leaves the tensors as they were."""
    return func([tensor.clone() for tensor in args[0]], *args[1:], **kwargs)


def _rank(rank: int, folder: str, store: str, how: str, values: str, seed: int) -> None:
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(rank), str(NUM_RANKS)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=NUM_RANKS)
    torch.manual_seed(seed)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    plan = RecordPlan(out=folder, values=values, prepared=True)  # type: ignore[arg-type]  # as above
    fault = KernelFault("c10d::allreduce_", without_effect if how == "ignored" else _as_it_is, None)
    with fault:
        session = Session(plan, model=model)
        session.start()
        for inputs, targets in batches("gpt", 2, 100 + seed + rank):
            fault.begin_step()
            _step(model, optimizer, inputs, targets, reduces=how != "dropped")
        session.end("finished")
    dist.destroy_process_group()


def _as_it_is(func: Any, args: Any, kwargs: Any) -> Any:
    return func(*args, **kwargs)


def _step(model: Any, optimizer: Any, inputs: Any, targets: Any, *, reduces: bool) -> None:
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
    loss.backward()
    if reduces:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= NUM_RANKS
    optimizer.step()
