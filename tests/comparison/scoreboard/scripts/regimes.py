"""Scripts with a way of training of their own: half precision, accumulation, closures, two ranks."""

from __future__ import annotations

import os
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from jumar.capture.plans.plan import RecordPlan
from jumar.capture.session.session import Session
from jumar.capture.session.settings import run_info
from jumar.recording import RecordingWriter

from .knobs import Run


def half(run: Run) -> None:
    """Autocast with `GradScaler`, clipping after unscaling."""
    torch.manual_seed(run.seed)
    net = run.to(
        nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.GELU(), nn.Flatten(), nn.Linear(512, 5))
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=run.of("decay", 1e-4))
    device = torch.device(run.device).type
    scaler = torch.amp.GradScaler(device, init_scale=run.of("scale", 1024.0), growth_interval=run.of("interval", 2))
    generator = torch.Generator().manual_seed(12)
    with run.recorded(net):
        for _ in range(4):
            x = run.to(torch.randn(6, 3, 8, 8, generator=generator))
            y = run.to(torch.randint(0, 5, (6,), generator=generator))
            with torch.autocast(device, getattr(torch, run.of("dtype", "float16"))):
                out = net(x)  # @model
                out = out * run.of("gain", 1.0)  # @gain
                loss = functional.cross_entropy(out, y, reduction=run.of("reduction", "mean"))  # @loss
                if loss.dim():
                    loss = loss.mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            if not run.of("no unscale", False):
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), run.of("norm", 0.5))  # @clip
            scaler.step(optimizer)  # @step
            scaler.update()


def accumulation(run: Run) -> None:
    """Two micro-batches a step, a dropout, a schedule of the learning rate, evaluation in between."""
    torch.manual_seed(run.seed)
    net = run.to(nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Dropout(run.of("dropout", 0.1)), nn.Linear(24, 4)))
    optimizer = torch.optim.NAdam(net.parameters(), lr=2e-3, momentum_decay=run.of("momentum decay", 4e-3))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=run.of("T_max", 4))
    generator = torch.Generator().manual_seed(13)
    previous = run.to(torch.zeros(()))
    with run.recorded(net):
        for _ in range(4):
            optimizer.zero_grad()
            for micro in range(2):
                x = run.to(torch.randn(10, 8, generator=generator))
                y = run.to(torch.randint(0, 4, (10,), generator=generator))
                loss = functional.cross_entropy(net(x), y)
                if micro == 1:
                    loss = loss * run.of("last", 1.0)  # @last
                loss = loss / run.of("divisor", 2) + 0.01 * previous * loss  # @divisor
                loss.backward()
            nn.utils.clip_grad_value_(net.parameters(), run.of("value", 0.02))  # @clip
            optimizer.step()  # @step
            previous = loss.detach() * run.of("memory", 0.5)  # @memory
            if not run.of("no schedule", False):
                schedule.step()


def closures(run: Run) -> None:
    """Fit with LBFGS; a penalty follows the previous solution."""
    torch.manual_seed(run.seed)
    net = run.to(nn.Sequential(nn.Linear(6, 10), nn.Softplus(beta=run.of("soft", 1.0)), nn.Linear(10, 2)))  # @soft
    optimizer = torch.optim.LBFGS(
        net.parameters(), lr=run.of("lr", 0.5), max_iter=run.of("iterations", 3), history_size=run.of("history", 5)
    )
    generator = torch.Generator().manual_seed(14)
    x, y = run.to(torch.randn(20, 6, generator=generator), torch.randn(20, 2, generator=generator))
    anchor = run.to(torch.zeros(6, 10).t().contiguous())
    with run.recorded(net):
        for _ in range(3):

            def closure(anchor: torch.Tensor = anchor) -> torch.Tensor:
                optimizer.zero_grad()
                error = functional.huber_loss(net(x), y, delta=run.of("delta", 1.0))  # @huber
                loss = error + run.of("penalty", 0.01) * (net[0].weight - anchor).pow(2).sum()  # @penalty
                loss.backward()
                return loss

            optimizer.step(closure)  # @step
            with torch.no_grad():
                anchor = anchor * run.of("keep", 0.5) + net[0].weight * 0.5  # @anchor


NUM_RANKS = 2


def ranks(run: Run) -> None:
    """Two ranks over gloo that average their gradients and share a running mean."""
    plan = RecordPlan(out=str(run.folder), values=run.values)  # type: ignore[arg-type]  # a word of the command line
    RecordingWriter(run.folder, replace(run_info(plan, None), num_ranks=NUM_RANKS))
    with TemporaryDirectory() as meeting:
        torch.multiprocessing.spawn(_rank, (run, f"{meeting}/store"), nprocs=NUM_RANKS)


def _rank(rank: int, run: Run, store: str) -> None:
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(rank), str(NUM_RANKS)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=NUM_RANKS)
    torch.manual_seed(run.of("seed of rank 1", 0) if rank else 0)
    net = nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 3))
    at_one: Any = run.of if rank else (lambda name, default: default)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, at_one("beta", 0.999)))
    session = Session(RecordPlan(out=str(run.folder), values=run.values, prepared=True), model=net)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(15)
    data, labels = torch.randn(4, 16, 9, generator=generator), torch.randint(0, 3, (4, 16), generator=generator)
    mean = torch.zeros(9)
    session.start()
    for step in range(4):
        shard = slice(at_one("shard", rank), None, NUM_RANKS)
        x, y = data[step][shard], labels[step][shard]  # @shard
        centre = x.mean(0) * at_one("centre", 1.0)  # @centre
        dist.all_reduce(centre)  # @reduce centre
        mean = mean * 0.9 + centre / NUM_RANKS * 0.1
        out = net(x - mean)
        loss = functional.cross_entropy(out, y, label_smoothing=at_one("smoothing", 0.0))  # @loss
        loss = loss * at_one("weight", 1.0)  # @weight
        optimizer.zero_grad()
        loss.backward()
        for parameter in net.parameters():
            if not (at_one("skips", False) and parameter.dim() == 1):
                dist.all_reduce(parameter.grad)  # @reduce
            elif rank:
                dist.all_reduce(parameter.grad.clone())
            parameter.grad /= run.of("world", NUM_RANKS)  # @divide
        optimizer.step()  # @step
    session.end("finished")
    dist.destroy_process_group()
