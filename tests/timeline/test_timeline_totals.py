"""Totals: those of torch.profiler's own table, and the same in a stream as in memory."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kineto_files import event, write
from torch.profiler import ProfilerActivity, profile, record_function

from jumar.timeline import tally
from jumar.timeline.model import nesting
from jumar.timeline.model.events import Integers, Kind
from jumar.timeline.reading import read_timeline
from jumar.timeline.tally import OutOfOrder, Tally
from jumar.timeline.totals import totals

ROUNDING_NS = 2
"""A length in the file and one in PyTorch's table differ by the rounding of both ends."""


def python_names(path: Path) -> set[str]:
    events = json.loads(path.read_text("utf-8"))["traceEvents"]
    return {event["name"] for event in events if event.get("cat") == "python_function"}


def train(*, stack: bool) -> profile:
    net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(net.parameters(), foreach=False)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=stack) as prof:
        for _ in range(3):
            with record_function("forward"):
                loss = net(torch.randn(8, 16)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert isinstance(prof, profile)
    return prof


@pytest.mark.slow
@pytest.mark.parametrize("stack", [False, True])
def test_calls_and_times_are_those_of_key_averages(tmp_path: Path, stack: bool) -> None:
    prof = train(stack=stack)
    path = tmp_path / "t.json"
    prof.export_chrome_trace(str(path))
    mine: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in totals(path).rows:
        if row.kind not in {Kind.PYTHON, Kind.OTHER}:
            numbers = (row.calls, row.total_ns, row.self_ns)
            mine[row.name] = [old + new for old, new in zip(mine[row.name], numbers, strict=True)]
    theirs = {row.key: row for row in prof.key_averages() if row.key not in {"[memory]", *python_names(path)}}
    assert set(mine) == set(theirs)
    assert {name: numbers[0] for name, numbers in mine.items()} == {name: row.count for name, row in theirs.items()}
    for name, row in theirs.items():
        _, total, own = mine[name]
        assert total == pytest.approx(row.cpu_time_total * 1000, abs=ROUNDING_NS * row.count)
        inside = sum(one.count for one in theirs.values())
        if stack:
            continue  # PyTorch takes Python's functions out of the time of a range, Jumar does not
        assert own == pytest.approx(row.self_cpu_time_total * 1000, abs=ROUNDING_NS * inside)
    assert set(totals(path).rows) == set(totals(read_timeline(path)).rows)


EVENTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 15), st.integers(0, 3)), max_size=25)


def arrays(items: list[tuple[int, int, int, int]]) -> list[Integers]:
    return [np.array([item[column] for item in items], np.int64) for column in range(4)]


def holders_by_stack(items: list[tuple[int, int, int]]) -> list[int]:
    """Return what PyTorch's `_build_tree` returns for events in order: a stack for each thread."""
    found: list[int] = []
    stacks: dict[int, list[int]] = defaultdict(list)
    for index, (lane, start, length) in enumerate(items):
        stack = stacks[lane]
        while stack and (start >= sum(items[stack[-1]][1:]) or start + length > sum(items[stack[-1]][1:])):
            stack.pop()
        found.append(stack[-1] if stack else nesting.NO_PARENT)
        stack.append(index)
    return found


@given(EVENTS)
def test_holders_are_those_of_a_stack(items: list[tuple[int, int, int, int]]) -> None:
    lanes, starts, durations, _ = arrays(items)
    order = nesting.in_order(lanes, starts, durations)
    found = nesting.parents(lanes[order], starts[order], durations[order])
    assert found.tolist() == holders_by_stack([items[index][:3] for index in order])


@given(EVENTS, st.integers(1, 6))
def test_pieces_in_order_give_the_same_sums(items: list[tuple[int, int, int, int]], piece: int) -> None:
    items = sorted(items, key=lambda item: (item[0], item[1], -item[2]))
    lanes, starts, durations, groups = arrays(items)
    kinds = np.where(groups == 3, Kind.WAIT, Kind.OPERATOR).astype(np.uint8)
    whole, parts = Tally(lambda found: found == 2, piece=None), Tally(lambda found: found == 2, piece=piece)
    whole.take(starts, durations, groups, kinds, lanes)
    for index in range(len(items)):
        one = slice(index, index + 1)
        parts.take(starts[one], durations[one], groups[one], kinds[one], lanes[one])
    assert list(parts.finished()) == list(whole.finished())


def test_a_piece_out_of_order_is_not_counted_wrongly() -> None:
    parts = Tally(piece=2)
    one, kinds = np.ones(1, np.int64), np.zeros(1, np.uint8)
    for start in (10, 20):
        parts.take(one * start, one, one, kinds, one)
    with pytest.raises(OutOfOrder):
        parts.take(one * 5, one, one, kinds, one)


def test_a_file_out_of_order_is_counted_in_a_second_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [event("cudaLaunchKernel", index * 10 + 1, 2, "cuda_runtime") for index in range(50)]
    path = write(tmp_path / "t.json", [*(event("aten::mm", index * 10, 5) for index in range(50)), *calls])
    monkeypatch.setattr(tally, "PIECE", 8)
    monkeypatch.setattr("jumar.timeline.formats.kineto.PIECE", 8)
    monkeypatch.setattr("jumar.timeline.chrome.files.BLOCK", 1000)
    assert {(row.name, row.calls, row.total_ns, row.self_ns, row.max_ns) for row in totals(path).rows} == {
        ("aten::mm", 50, 250_000, 150_000, 5000), ("cudaLaunchKernel", 50, 100_000, 100_000, 2000),
    }  # fmt: skip
