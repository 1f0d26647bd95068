"""The data loader from inside: each way to load, each stage, on the clock of the trace."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from jumar.capture.notes.patches import Patches
from jumar.capture.profile.loader import parts
from jumar.capture.profile.loader.stages import observe_pinning
from jumar.capture.profile.loader.watch import LoaderWatch, num_ready
from jumar.capture.profile.log import Event, EventLog

SLEEP_S = 0.002


class Items(Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SLEEP_S)
        return torch.full((3,), index)


class Batches(Items):
    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return [torch.full((3,), index) for index in indices]


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[torch.Tensor]:
        time.sleep(SLEEP_S)
        info = get_worker_info()
        yield from torch.arange(8.0)[slice(info.id, None, info.num_workers) if info else slice(None)]


def slow_collate(samples: list[torch.Tensor]) -> torch.Tensor:
    time.sleep(SLEEP_S)
    return torch.stack(samples)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[LoaderWatch]:
    watch = LoaderWatch(EventLog(), tmp_path)
    watch.start()
    yield watch
    watch.stop()


def taken(watch: LoaderWatch) -> list[Event]:
    """End the watch and return its events."""
    watch.stop()
    watch.collect()
    return list(watch._log._events)


def names(events: list[Event]) -> Counter[str]:
    return Counter(event.name for event in events)


@pytest.mark.parametrize(("dataset", "way"), [(Items(), "__getitem__"), (Batches(), "__getitems__")])
def test_loading_in_the_programs_own_process(watch: LoaderWatch, dataset: Dataset, way: str) -> None:
    batches = list(DataLoader(dataset, batch_size=4))
    assert torch.equal(torch.cat(batches)[:, 0], torch.arange(8))
    events = taken(watch)
    assert names(events) == {"loader next": 2, "loader fetch": 2, "loader collate": 2}
    fetches = [event for event in events if event.name == "loader fetch"]
    assert [event.arguments for event in fetches] == [{"samples": 4, "way": way}] * 2
    if way == "__getitem__":
        assert all(event.duration_ns >= 4 * SLEEP_S * 1e9 for event in fetches)
    for fetch in fetches:  # inside the wait for the batch
        assert any(
            wait.start_ns <= fetch.start_ns and fetch.start_ns + fetch.duration_ns <= wait.start_ns + wait.duration_ns
            for wait in events
            if wait.name == "loader next"
        )


def test_the_time_of_collate_is_its_own(watch: LoaderWatch) -> None:
    list(DataLoader(Batches(), batch_size=8, collate_fn=slow_collate))
    fetch, collate = sorted(
        (event for event in taken(watch) if event.name != "loader next"), key=lambda event: event.start_ns
    )
    assert (fetch.name, collate.name) == ("loader fetch", "loader collate")
    assert collate.duration_ns >= SLEEP_S * 1e9 > fetch.duration_ns
    assert fetch.start_ns + fetch.duration_ns <= collate.start_ns


def test_single_samples_and_streams_are_seen(watch: LoaderWatch) -> None:
    assert len(list(DataLoader(Items(), batch_size=None))) == 8
    assert len(list(DataLoader(Stream(), batch_size=4))) == 2
    ways = Counter(event.arguments["way"] for event in taken(watch) if event.name == "loader fetch")
    assert ways == {"__getitem__": 8, "__iter__": 2}


@pytest.mark.slow
@pytest.mark.parametrize("is_persistent", [False, True])
@pytest.mark.parametrize("dataset", [Items(), Stream()], ids=["map", "iterable"])
def test_workers_tell_their_stages(watch: LoaderWatch, tmp_path: Path, dataset: Dataset, is_persistent: bool) -> None:
    loader = DataLoader(dataset, batch_size=2, num_workers=2, persistent_workers=is_persistent)
    begin = time.time_ns()
    for _ in range(2):
        assert len(list(loader)) == 4
    events = taken(watch)
    count = names(events)
    assert (count["loader next"], count["loader fetch"], count["loader collate"]) == (8, 8, 8)
    assert count["loader transfer"] == 8
    inside = [event for event in events if event.name != "loader next"]
    assert os.getpid() not in {event.pid for event in inside}
    assert {event.arguments["worker"] for event in inside} == {0, 1}
    assert all(begin <= event.start_ns <= time.time_ns() for event in inside)
    assert len({event.pid for event in inside}) == (2 if is_persistent else 4)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_queue_is_full_where_the_program_is_slow_and_empty_where_the_loader_is(watch: LoaderWatch) -> None:
    for _ in DataLoader(Batches(), batch_size=1, num_workers=1):
        time.sleep(0.05)
    slow_program = [count.value for count in watch._log._counts]
    watch._log._counts.clear()
    for _ in DataLoader(Items(), batch_size=2, num_workers=1):
        pass
    slow_loader = [count.value for count in watch._log._counts]
    assert len(slow_program) == 8
    assert max(slow_program) == 2  # the loader's prefetch_factor
    assert max(slow_loader) <= 1


@pytest.mark.slow
def test_workers_stop_to_write_when_the_watch_ends(watch: LoaderWatch, tmp_path: Path) -> None:
    loader = iter(DataLoader(Items(), batch_size=1, num_workers=1, prefetch_factor=1))
    next(loader)
    taken(watch)
    assert len(list(loader)) == 7
    assert list(tmp_path.iterdir()) == []


def test_a_loader_that_was_there_before_is_named(tmp_path: Path) -> None:
    loader = iter(DataLoader(Batches(), batch_size=4))
    watch = LoaderWatch(EventLog(), tmp_path)
    watch.start()
    next(loader)
    assert names(taken(watch)) == {"loader next": 1}
    assert watch.not_covered[0].endswith("(1 batches of it were taken)")


def test_pinning_is_timed_once_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    module = torch.utils.data._utils.pin_memory
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self, device=None: self)
    patches, found = Patches(), []
    observe_pinning(patches, lambda name, *_, **__: found.append(name))
    batch = [torch.ones(1), {"a": torch.ones(1)}]
    assert module.pin_memory(batch) == batch
    patches.restore()
    module.pin_memory(batch)
    assert found == ["loader pin"]


def test_half_a_line_of_a_killed_worker_is_left_out(tmp_path: Path) -> None:
    line = '{"name": "loader fetch", "start": 1, "duration": 2, "thread": 3, "more": {"worker": 0}}\n'
    (tmp_path / f"loader-{os.getpid()}-77.jsonl").write_text(line + line[:20])
    (tmp_path / "loader-1-78.jsonl").write_text(line)
    assert list(parts.collected(tmp_path)) == [Event("loader fetch", 1, 2, 77, 3, {"worker": 0})]
    assert [path.name for path in tmp_path.iterdir()] == ["loader-1-78.jsonl"]


def test_a_queue_without_a_length_is_unknown() -> None:
    class Queue:
        def qsize(self) -> int:
            raise NotImplementedError

    class Iterated:
        _data_queue = Queue()

    assert num_ready(Iterated()) is None
    assert num_ready(object()) is None
