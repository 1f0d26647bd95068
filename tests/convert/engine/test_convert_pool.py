"""Worker processes: right answers, exact blame, and an end at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pool_work
import pytest

from jumar.base.process.pool import Lost, run
from jumar.convert import convert_tree
from jumar.convert.engine import converting as converting_module

NUMBERS = list(range(8))
BATCHES = [[0, 1, 2], [3, 4, 5], [6, 7]]


def results(function: Callable[..., object], jobs: int = 2) -> dict[int, object]:
    return dict(run(function, NUMBERS, BATCHES, jobs))


def test_every_item_is_answered_once_by_its_index() -> None:
    assert results(pool_work.square) == {number: number * number for number in NUMBERS}


def test_what_a_worker_prints_spoils_nothing() -> None:
    assert results(pool_work.talkative) == {number: number for number in NUMBERS}


def test_what_a_function_raises_is_raised_here() -> None:
    with pytest.raises(ValueError, match="three"):
        results(pool_work.fails_on_three)


def test_an_error_that_cannot_travel_is_still_told() -> None:
    with pytest.raises(RuntimeError, match="Local: stays here"):
        results(pool_work.raises_what_cannot_travel)


@pytest.mark.parametrize(
    ("function", "reason"), [(pool_work.dies_on_three, "signal 9"), (pool_work.leaves_on_three, "code 7")]
)
def test_only_the_item_that_kills_its_worker_is_lost(function: Callable[..., object], reason: str) -> None:
    found = results(function, jobs=1)
    lost = found.pop(3)
    assert isinstance(lost, Lost)
    assert reason in lost.reason
    assert found == {number: number for number in NUMBERS if number != 3}


def test_an_item_whose_worker_died_by_chance_is_tried_again_alone(tmp_path: Path) -> None:
    items = [(number, str(tmp_path / "marker")) for number in NUMBERS]
    assert dict(run(pool_work.dies_once, items, BATCHES, 2)) == {number: number for number in NUMBERS}


def test_leaving_early_ends_the_workers_at_once(tmp_path: Path) -> None:
    items = [(str(tmp_path), 0.0), (str(tmp_path), 60.0), (str(tmp_path), 60.0)]
    start = time.monotonic()
    answers = run(pool_work.sleeps, items, [[0], [1], [2]], 2)
    next(answers)
    answers.close()
    assert time.monotonic() - start < 30
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)


SCRIPT = """
import sys
sys.path.insert(0, {here!r})
import pool_work
from jumar.base.process.pool import run
items = [({folder!r}, {seconds})] * 2
list(run(pool_work.sleeps, items, [[0], [1]], 2))
"""
"""No main guard: a pool that imports the caller again would never come to an end."""


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_gone(process: int) -> bool:
    """Whether a process, which is no child of this one, has ended (a zombie has)."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize(("sent", "seconds"), [(signal.SIGINT, 60), (signal.SIGKILL, 2)])
def test_workers_end_with_the_program_that_uses_them(tmp_path: Path, sent: signal.Signals, seconds: int) -> None:
    """On Ctrl-C at once; when the program is killed, once they have answered and nobody listens."""
    marks = tmp_path / "marks"
    marks.mkdir()
    code = SCRIPT.format(here=str(Path(__file__).parents[1]), folder=str(marks), seconds=seconds)
    with (tmp_path / "errors").open("wb") as errors:
        program = subprocess.Popen([sys.executable, "-c", code], stderr=errors)
    wait_for(lambda: len(list(marks.iterdir())) == 2)
    workers = [int(path.name) for path in marks.iterdir()]
    start = time.monotonic()
    program.send_signal(sent)
    assert program.wait(timeout=30) in (-sent, 1)
    wait_for(lambda: all(is_gone(worker) for worker in workers))
    assert time.monotonic() - start < 30
    told = (tmp_path / "errors").read_text().strip()
    assert told.endswith("KeyboardInterrupt") if sent == signal.SIGINT else told == ""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    for number in range(12):
        (root / f"a{number}.py").write_text(f"import torch\nx{number} = y.cuda()\n" * 20)
    (root / "bad.py").write_text("print 'cuda'\n")
    return root


def test_workers_and_one_process_convert_alike(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = convert_tree(tree, jobs=1, cache=False)
    for name in ("_WORKER_BYTES", "_SUMMARY_WORKER_BYTES", "_BATCH_BYTES"):
        monkeypatch.setattr(converting_module, name, 500)
    seen: list[tuple[int, int]] = []
    assert convert_tree(tree, jobs=2, cache=False, on_progress=lambda *of: seen.append(of)) == alone
    assert seen == [(number, 13) for number in range(1, 14)]


def test_a_file_whose_worker_is_killed_stays_as_it_was_and_is_reported(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = Lost("the system ended the process with signal 9")

    def pool(function, items, batches, jobs):  # type: ignore[no-untyped-def]
        for index, item in enumerate(items):
            yield index, lost if getattr(item, "path", "") == "a3.py" else function(item)

    monkeypatch.setattr(converting_module, "run", pool)
    monkeypatch.setattr(converting_module, "_WORKER_BYTES", 500)
    conversion = convert_tree(tree, jobs=2, cache=False)
    failure = next(outcome for outcome in conversion.failures if outcome.path == "a3.py")
    assert failure.after == (tree / "a3.py").read_bytes()
    assert [finding.code for finding in failure.findings] == ["JM193"]
    assert "signal 9" in failure.error
    assert len(conversion.changed) == 11
