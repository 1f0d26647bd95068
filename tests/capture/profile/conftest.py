from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from jumar.capture.profile import window
from jumar.capture.profile.session import ProfileSession


@pytest.fixture(autouse=True)
def _nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # An earlier test may have brought the emulated NPU up in this process; these programs use none.
    monkeypatch.setattr(window, "runs_on_npu", lambda: False)
    yield
    assert ProfileSession.current is None, "the test left a profile under way"
    assert not torch._C._autograd._profiler_enabled()


@pytest.fixture
def events() -> Callable[[Path], list[dict[str, Any]]]:
    """Read the events of a trace, `ts` in microseconds since 1970."""

    def read(path: Path) -> list[dict[str, Any]]:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            document = json.load(file)
        for event in document["traceEvents"]:
            if "ts" in event:
                event["ts"] += document["baseTimeNanoseconds"] / 1000
        return document["traceEvents"]  # type: ignore[no-any-return]

    return read


@pytest.fixture
def loop() -> Callable[..., None]:
    """Train a small model; `after` is called at the end of each step, with its number."""

    def run(num_steps: int, after: Callable[[int], object] = lambda _: None, updates_a_step: int = 1) -> None:
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(num_steps):
            for _ in range(updates_a_step):
                optimizer.zero_grad()
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()
            after(step)

    return run


def profile_json(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "profile.json").read_text("utf-8"))  # type: ignore[no-any-return]


@pytest.fixture
def rank_facts() -> Callable[[Path], dict[str, Any]]:
    """Return what `profile.json` says of rank 0."""
    return lambda folder: profile_json(folder)["ranks"]["0"]
