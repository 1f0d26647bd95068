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


def step_with_kept_memory(folder: Path, garbage: int) -> Path:
    """Train with memory of an earlier step that a view shows before an `out=` overwrites it, as FSDP2 does."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = torch.zeros(6)
    with jumar.record(folder):
        for _ in range(2):
            ctypes.memset(kept.data_ptr(), garbage, 24)
            rows = kept.view(2, 3)
            torch.mul(model(torch.ones(2, 4)).detach(), 0.5, out=rows)
            (model(torch.ones(2, 4)) * rows).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return folder


def test_memory_from_before_the_step_that_is_overwritten_before_it_is_read_is_no_other_data(tmp_path: Path) -> None:
    first, second = (step_with_kept_memory(tmp_path / str(value), value) for value in (1, 66))
    comparison = compare(first, second)
    assert comparison.status == "agree", comparison.headline


def step_that_writes_a_part(folder: Path, shift: int) -> Path:
    """Put results of one step into a part of what the next step reads whole, as a queue of keys does."""
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    queue = torch.randn(4, 8)
    with jumar.record(folder):
        for _ in range(3):
            (model(torch.ones(2, 4)) @ queue.clone()).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            queue[:, shift : shift + 4] = model.weight.detach()
    return folder


def test_a_part_that_is_overwritten_does_not_hide_what_lies_beside_it(tmp_path: Path) -> None:
    first, second = (step_that_writes_a_part(tmp_path / str(shift), shift) for shift in (0, 4))
    comparison = compare(first, second)
    assert comparison.status == "diverge", comparison.headline
    line = next(number for number, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "queue[:," in text)
    assert f"{Path(__file__).name}:{line}" in comparison.headline, comparison.headline
