"""Logs that grow: each new error once, through rotation, truncation, new logs, half lines and pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jumar.advise.doctor.entries.store import built_in_errors
from jumar.advise.doctor.logs.follow import Follower
from jumar.base.errors import InputError

TABLE = built_in_errors()
AICPU = "RuntimeError: call failed, error code is 507018\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 20, in main\n'


class Job:
    """A folder of logs, its follower, and a clock that the test moves."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.now = 0.0
        self.folder = folder
        self.follower = Follower([folder / name for name in names] or [folder], TABLE, clock=lambda: self.now)

    def write(self, name: str, text: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(text)

    def hear(self, seconds: float = 5) -> list[str]:
        told = []
        for _ in range(int(seconds * 2)):
            told += [
                f"{one.incident.lead.path.name}: {one.incident.finding.message}" for one in self.follower.poll()[0]
            ]
            self.now += 0.5
        return told


def test_an_error_is_told_once_and_repeats_are_counted(tmp_path):
    job = Job(tmp_path)
    job.write("a.log", "fine\n" + AICPU)
    assert job.hear() == ["a.log: An operator on the AI CPU failed or did not end (507018)."]
    job.write("a.log", AICPU * 3)
    assert job.hear() == []
    (incident,) = job.follower.diagnosis().incidents
    assert (incident.lead.line, incident.lead.count) == (2, 4)


def test_a_new_log_is_found_and_the_same_error_in_it_is_only_counted(tmp_path):
    job = Job(tmp_path)
    job.write("rank_0.log", AICPU)
    assert len(job.hear()) == 1
    job.write("rank_1.log", AICPU + "KeyError: 'lr'\n" * 70)
    job.hear()
    assert list(job.follower.progress.repeats.values()) == [1]
    assert job.follower.progress.num_files == 2


def test_a_traceback_is_told_when_it_has_come_to_its_end(tmp_path):
    job = Job(tmp_path)
    job.write("a.log", TRACEBACK)
    assert job.hear() == []
    job.write("a.log", "KeyErr")
    assert job.hear(1) == []
    job.write("a.log", "or: 'lr'\n")
    assert job.hear() == ["a.log: KeyError: 'lr'."]


def test_a_last_line_without_an_end_is_taken_after_a_while(tmp_path):
    job = Job(tmp_path)
    job.write("a.log", "Segmentation fault (core dumped)")
    assert job.hear(1) == []
    assert len(job.hear(5)) == 1


@pytest.mark.parametrize("is_renamed", [True, False])
def test_after_a_rotation_nothing_is_lost_and_nothing_is_read_twice(tmp_path, is_renamed):
    (tmp_path / "a.log").write_text("".join(f"step {number}\n" for number in range(40)))
    job = Job(tmp_path)
    job.hear(1)
    if is_renamed:
        job.write("a.log", AICPU)
        (tmp_path / "a.log").rename(tmp_path / "a.log.1")
        job.write("a.log", "fine\n")
    else:
        (tmp_path / "a.log.1").write_bytes((tmp_path / "a.log").read_bytes())
        (tmp_path / "a.log").write_text("")
        job.hear(1)
        job.write("a.log", "fine\n" + AICPU)
    assert len(job.hear(8)) == 1
    assert job.follower.progress.num_lines == 42
    notes = job.follower.diagnosis().notes
    assert any("begins again from line 1" in note for note in notes)
    assert any("is what another log was" in note for note in notes)
    assert sum(report.num_lines for report in job.follower.diagnosis().files) == 42


def test_a_log_that_was_written_anew_beyond_its_old_length_is_read_from_its_beginning(tmp_path):
    (tmp_path / "a.log").write_text("old line\n")
    job = Job(tmp_path, "a.log")
    job.hear(1)
    (tmp_path / "a.log").write_text("a new line that is longer\n" + AICPU)
    assert len(job.hear()) == 1


def test_a_log_that_is_removed_keeps_what_was_found(tmp_path):
    job = Job(tmp_path)
    job.write("a.log", AICPU)
    job.hear()
    (tmp_path / "a.log").unlink()
    assert job.hear() == []
    assert len(job.follower.diagnosis().incidents) == 1


def test_packed_logs_are_not_followed_and_that_is_told(tmp_path):
    (tmp_path / "a.log.gz").write_bytes(b"\x1f\x8b\x08" + bytes(20))
    job = Job(tmp_path)
    job.write("b.log", "fine\n")
    job.hear()
    assert f"{tmp_path / 'a.log.gz'} was not followed: it is packed, or no text." in job.follower.diagnosis().notes


def test_a_path_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        Follower([tmp_path / "no.log"], TABLE)


def test_a_named_pipe_is_read_until_its_writer_ends(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    job = Job(tmp_path, "pipe")
    assert job.hear(1) == []
    assert not job.follower.is_over
    with (tmp_path / "pipe").open("w") as file:
        file.write(AICPU)
        file.flush()
        assert len(job.hear()) == 1
    job.hear(1)
    assert job.follower.is_over


def run(*arguments: str, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "jumar", "doctor", "--follow", *arguments], stdout=subprocess.PIPE, text=True, **options
    )


def test_stdin_is_followed_and_its_end_gives_the_summary():
    process = run("-", "--json", stdin=subprocess.PIPE)
    out, _ = process.communicate("fine\n" + AICPU + "no end")
    events = [json.loads(line) for line in out.splitlines()]
    assert [event["event"] for event in events] == ["incident", "summary"]
    assert events[0]["where"]["line"] == 2
    assert (events[1]["num_lines"], events[1]["num_incidents"], process.returncode) == (3, 1, 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_the_summary_and_the_exit_code_of_the_findings(tmp_path, number):
    (tmp_path / "a.log").write_text(AICPU)
    process = run(str(tmp_path))
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(number)
    out, _ = process.communicate(timeout=20)
    assert "a.log:1" in first
    assert "The first error: An operator on the AI CPU failed" in out
    assert process.returncode == 1


def test_nothing_new_takes_next_to_no_time(tmp_path):
    for number in range(200):
        (tmp_path / f"rank_{number}.log").write_text("fine\n")
    job = Job(tmp_path)
    job.hear(1)
    start = time.process_time()
    for _ in range(4):
        job.follower.poll()
    assert time.process_time() - start < 0.2
