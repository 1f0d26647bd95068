from __future__ import annotations

import io
import re
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from jumar.show import progress


def log() -> Console:
    return Console(file=io.StringIO(), force_terminal=False)


def lines(console: Console) -> list[str]:
    """The lines with every time as T."""
    assert isinstance(console.file, io.StringIO)
    return re.sub(r"\d+\.\d s", "T s", console.file.getvalue()).splitlines()


def test_a_log_has_a_line_at_the_start_and_the_end_of_a_task() -> None:
    console = log()
    with progress(console=console) as bars:
        task = bars.add_task("Converting", total=3)
        for _ in range(3):
            bars.advance(task)
    assert lines(console) == ["Converting: 0 of 3", "Converting: done, 3 of 3, T s"]


def test_a_name_is_printed_as_it_is() -> None:
    console = log()
    with progress(console=console) as bars:
        bars.add_task("Reading models:x: [a]", total=None)
    assert lines(console) == ["Reading models:x: [a] …", "Reading models:x: [a]: done, T s"]


def test_update_ends_a_task_too() -> None:
    console = log()
    with progress(console=console) as bars:
        task = bars.add_task("Running", total=10)
        bars.update(task, completed=10)
        bars.update(task, completed=10)
    assert lines(console) == ["Running: 0 of 10", "Running: done, 10 of 10, T s"]


def test_track_counts_its_sequence() -> None:
    console = log()
    with progress(console=console) as bars:
        assert sum(bars.track([1, 2, 3], description="Adding")) == 6
    assert lines(console) == ["Adding: 0 of 3", "Adding: done, 3 of 3, T s"]


def test_a_task_without_a_total_ends_with_the_context() -> None:
    console = log()
    with progress(console=console) as bars:
        bars.add_task("Thinking", total=None)
    assert lines(console) == ["Thinking …", "Thinking: done, T s"]


def test_a_total_that_is_learnt_later_is_used() -> None:
    console = log()
    with progress(console=console) as bars:
        task = bars.add_task("Reading", total=None)
        bars.update(task, total=2)
        bars.advance(task, 2)
    assert lines(console) == ["Reading …", "Reading: done, 2 of 2, T s"]


def test_an_error_stops_the_tasks_that_run_and_goes_on() -> None:
    console = log()

    def run() -> None:
        with progress(console=console) as bars:
            bars.advance(bars.add_task("Running", total=5), 2)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        run()
    assert lines(console) == ["Running: 0 of 5", "Running: stopped, 2 of 5, T s"]


def test_removing_and_stopping_end_a_task_once() -> None:
    console = log()
    with progress(console=console) as bars:
        first, second = bars.add_task("One", total=2), bars.add_task("Two", total=2)
        bars.remove_task(first)
        bars.stop_task(second)
    assert lines(console)[2:] == ["One: stopped, 0 of 2, T s", "Two: stopped, 0 of 2, T s"]


def test_markup_in_a_description_is_text() -> None:
    console = log()
    with progress(console=console) as bars:
        bars.add_task("[red]model[0]", total=None)
    assert lines(console)[0] == "[red]model[0] …"


def test_a_terminal_shows_a_bar_with_its_count() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with progress(console=console) as bars:
        bars.update(bars.add_task("Running [x]", total=4), completed=4)
    assert isinstance(console.file, io.StringIO)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())
    assert "Running [x]" in text
    assert "4/4" in text


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as bars:
        bars.advance(bars.add_task("Running", total=1))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Running: 0 of 1\nRunning: done")


def test_a_task_that_ends_before_its_total_without_an_error_is_done() -> None:
    console = log()
    with progress(console=console) as bars:
        bars.advance(bars.add_task("Compare", total=3))
    assert lines(console) == ["Compare: 0 of 3", "Compare: done after 1 of 3, T s"]


def test_forced_colours_put_no_spinner_into_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with (tmp_path / "log").open("w") as log:
        monkeypatch.setattr(sys, "stderr", log)
        with progress() as bars:
            task = bars.add_task("Read", total=3)
            bars.update(task, completed=3)
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0] == "Read: 0 of 3"
    assert len(lines) == 2
    assert "\x1b[" not in "".join(lines)


def test_a_log_has_a_line_of_a_task_that_runs_and_none_once_it_has_ended() -> None:
    console = log()
    with progress(console=console) as bars:
        task = bars.add_task("Reading", total=3)
        bars.advance(task)
        bars.tell_running()  # type: ignore[attr-defined]  # what a thread does every ten seconds
        bars.update(task, completed=3)
        bars.tell_running()  # type: ignore[attr-defined]
    seen = [re.sub(r"\b\d+ s", "T s", line) for line in lines(console)]
    assert seen == ["Reading: 0 of 3", "Reading: running, 1 of 3, T s", "Reading: done, 3 of 3, T s"]


def test_a_task_that_runs_for_long_says_so_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jumar.show.terminal.progress_bars.EVERY_S", 0.01)
    console = log()
    with progress(console=console) as bars:
        bars.add_task("Waiting", total=None)
        end = time.monotonic() + 10
        while "running" not in console.file.getvalue() and time.monotonic() < end:  # type: ignore[attr-defined]
            time.sleep(0.01)
    assert "Waiting: running, 0 s" in lines(console)
