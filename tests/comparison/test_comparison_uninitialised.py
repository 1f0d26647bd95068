"""Memory that nothing has written to differs from run to run, and no operator is to blame for it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import nn

import jumar
from jumar.comparison import compare


def train_with_a_bucket(folder: Path, garbage: int) -> Path:
    """Train as DistributedDataParallel does: gradients are scaled into views of an uninitialised bucket."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with jumar.record(folder):
        bucket = torch.empty(15)
        ctypes.memset(bucket.data_ptr(), garbage, 60)
        views = [bucket.as_strided((3, 4), (4, 1), 0), bucket.as_strided((3,), (1,), 12)]
        for _ in range(2):
            model(torch.ones(2, 4)).square().sum().backward()
            for parameter, view in zip(model.parameters(), views, strict=True):
                torch.mul(parameter.grad, 0.5, out=view)
                parameter.grad.copy_(view)
            optimizer.step()
            optimizer.zero_grad()
    return folder


def test_views_of_uninitialised_memory_and_out_arguments_are_not_blamed(tmp_path: Path) -> None:
    first, second = (train_with_a_bucket(tmp_path / str(value), value) for value in (1, 66))
    comparison = compare(first, second)
    assert comparison.status == "agree", comparison.headline
    notes = {diff.note for diff in comparison.operators if diff.status == "not-compared"}
    assert "the output is a view of uninitialised memory" in notes
