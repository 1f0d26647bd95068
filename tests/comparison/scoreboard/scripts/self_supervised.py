"""Scripts with state that outlives a step: a queue of keys, a teacher that follows by moving average, a bank."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn
from torch.nn import functional

from .knobs import Run


def _encoder() -> nn.Sequential:
    return nn.Sequential(nn.Linear(12, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 8))


def moco(run: Run) -> None:
    """Contrast queries with a queue of earlier keys; the key encoder follows the query encoder."""
    torch.manual_seed(run.of("seed", run.seed))
    query = _encoder()
    key = copy.deepcopy(query)
    query, key = run.to(query, key)
    queue = run.to(functional.normalize(torch.randn(8, 32), dim=0))
    pointer = 0
    optimizer = torch.optim.SGD(query.parameters(), lr=run.of("lr", 0.05), momentum=run.of("momentum", 0.9))
    generator = torch.Generator().manual_seed(run.of("data", 1))
    batches = [torch.randn(2, 8, 12, generator=generator) for _ in range(5)]
    with run.recorded(query):
        for step, views in enumerate(batches):
            first, second = run.to(views)
            if step == run.of("late noise at", 99):
                second = second * 1.01  # @noise
            q = functional.normalize(query(first), dim=run.of("dim", 1))  # @normalize
            with torch.no_grad():
                for a, b in zip(key.parameters(), query.parameters(), strict=True):
                    a.mul_(run.of("ema", 0.9)).add_(b, alpha=0.1)  # @ema
                k = functional.normalize(key(second), dim=1)
            positive = (q * k).sum(1, keepdim=True)
            negative = q @ queue.clone()
            logits = torch.cat([positive, negative], 1)
            logits = logits / run.of("temperature", 0.2)  # @temperature
            labels = run.to(torch.zeros(len(logits), dtype=torch.long))
            loss = functional.cross_entropy(logits, labels, label_smoothing=run.of("smoothing", 0.0))  # @loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # @step
            stored = (q.detach() if run.of("wrong keys", False) else k) * 1.0
            if run.of("scaled keys", False):
                stored = stored * 1.02  # @scaled
            queue[:, pointer + run.of("shift", 0) : pointer + run.of("shift", 0) + 8] = stored.t()  # @enqueue
            pointer = (pointer + run.of("advance", 8)) % 16


def teacher(run: Run) -> None:
    """Distil a teacher that is the moving average of the student; a centre follows the teacher's outputs."""
    torch.manual_seed(run.seed)
    student = nn.Sequential(nn.Linear(10, 20), nn.GELU(), nn.Dropout(run.of("dropout", 0.0)), nn.Linear(20, 6))  # @drop
    other = copy.deepcopy(student).requires_grad_(False)
    student, other = run.to(student, other)
    centre = run.to(torch.zeros(6))
    optimizer = torch.optim.AdamW(
        student.parameters(), lr=1e-3, weight_decay=run.of("decay", 0.05), betas=(0.9, run.of("beta", 0.999))
    )
    generator = torch.Generator().manual_seed(3)
    batches = [torch.randn(16, 10, generator=generator) for _ in range(5)]
    with run.recorded(student):
        for step, batch in enumerate(batches):
            x = run.to(batch)
            with torch.no_grad():
                target = other(x)
                soft = torch.softmax((target - centre) / run.of("sharpness", 0.04), -1)  # @soft
            logits = student(x)
            if run.of("mean", False):
                loss = -(soft * torch.log_softmax(logits / 0.1, -1)).mean(-1).mean()  # @mean
            else:
                loss = -(soft * torch.log_softmax(logits / 0.1, -1)).sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # @step
            momentum = 1 - (1 - run.of("base", 0.99)) * (math.cos(math.pi * step / 5) + 1) / 2
            with torch.no_grad():
                for a, b in zip(other.parameters(), student.parameters(), strict=True):
                    a.lerp_(b, 1 - momentum)  # @ema
                centre = centre * run.of("centre", 0.9) + target.mean(0) * 0.1  # @centre


def bank(run: Run) -> None:
    """Contrast each sample with a bank of all samples' features, drawn by Python's generator."""
    import random

    torch.manual_seed(run.seed)
    random.seed(run.of("python seed", 5))
    net = run.to(nn.Sequential(nn.Linear(9, 16), nn.Tanh(), nn.Linear(16, 8)))
    features = run.to(functional.normalize(torch.randn(20, 8), dim=1))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3, eps=run.of("eps", 1e-8))
    generator = torch.Generator().manual_seed(4)
    data = torch.randn(20, 9, generator=generator)
    with run.recorded(net):
        for step in range(5):
            index = torch.tensor([(4 * step + i) % 20 for i in range(4)])
            if step == 2 and run.of("other order", False):
                index = index.flip(0)  # @order
            negatives = torch.tensor(random.sample(range(20), 6))
            x, at, negatives = run.to(data[index], index, negatives)
            out = functional.normalize(net(x), dim=1, eps=run.of("norm eps", 1e-12))  # @norm
            positive = (out * features[at]).sum(1)
            others = torch.einsum("bd,nd->bn", out, features[negatives])
            logits = torch.cat([positive[:, None], others], 1).div(run.of("temperature", 0.1))  # @temperature
            loss = -logits.log_softmax(1)[:, run.of("column", 0)].mean()  # @select
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # @step
            with torch.no_grad():
                mixed = features[at] * run.of("keep", 0.5) + out * 0.5  # @mix
                features[at] = functional.normalize(mixed, p=run.of("power", 2.0), dim=1)  # @renorm
