"""Processes that tune on one machine take turns."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from itertools import pairwise

import pytest

from jumar.tune.measure.worker.client import MACHINE, NoTurn, Turns

fcntl = pytest.importorskip("fcntl", reason="turns need file locks")

HOLD = """
import sys
from pathlib import Path
from jumar.tune.measure.worker.client import Turns
with Turns(Path(sys.argv[1])).taken():
    print("taken", flush=True)
    sys.stdin.readline()
print("left", flush=True)
sys.stdin.readline()
"""

ALTERNATE = """
import sys, time
from pathlib import Path
from jumar.tune.measure.worker.client import Turns
folder, name = Path(sys.argv[1]), sys.argv[2]
turns = Turns(folder)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(6):
    with turns.taken():
        with open(folder / "log", "a") as log:
            log.write(name + "(")
        time.sleep(0.1)
        with open(folder / "log", "a") as log:
            log.write(")")
"""


@pytest.fixture
def started():
    """Start processes that end with the test."""
    running = []

    def start(code, *arguments):
        running.append(
            subprocess.Popen(
                [sys.executable, "-c", code, *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        return running[-1]

    yield start
    for one in running:
        one.kill()
        one.communicate()


def says(process) -> str:
    return process.stdout.readline().strip()


def goes_on(process) -> None:
    process.stdin.write("\n")
    process.stdin.flush()


def test_who_comes_second_waits_and_is_told_for_whom(tmp_path, started):
    told = []
    holder = started(HOLD, tmp_path)
    assert says(holder) == "taken"
    turns = Turns(tmp_path, on_wait=lambda process: (told.append(process), goes_on(holder)))
    with turns.taken():
        assert says(holder) == "left"
    assert told == [holder.pid]
    assert turns.waited_s > 0


def test_a_turn_that_does_not_come_in_time_is_given_up_and_leaves_nothing_behind(tmp_path, started):
    holder = started(HOLD, tmp_path)
    assert says(holder) == "taken"
    with pytest.raises(NoTurn), Turns(tmp_path).taken(0.1):
        pass
    goes_on(holder)
    assert says(holder) == "left"
    with Turns(tmp_path).taken(0.1):
        pass


def test_a_process_that_is_killed_lets_go_of_its_turn(tmp_path, started):
    holder = started(HOLD, tmp_path)
    assert says(holder) == "taken"
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with Turns(tmp_path).taken(5.0):
        pass


def test_two_processes_alternate_and_never_overlap(tmp_path, started):
    both = [started(ALTERNATE, tmp_path, name) for name in "ab"]
    assert [says(one) for one in both] == ["ready", "ready"]
    for one in both:
        goes_on(one)
    assert [one.wait() for one in both] == [0, 0]
    turns = (tmp_path / "log").read_text("utf-8").split(")")[:-1]
    assert sorted(turns) == ["a("] * 6 + ["b("] * 6, "one was still measuring when the next began"
    assert sum(one != other for one, other in pairwise(turns)) >= 4, "one measured while the other waited"


def test_threads_of_one_process_share_its_turn(tmp_path):
    inside = threading.Barrier(2, timeout=10)

    def measure() -> None:
        with Turns(tmp_path).taken(5.0):
            inside.wait()

    threads = [threading.Thread(target=measure) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not inside.broken


def test_a_folder_that_cannot_be_written_to_means_no_waiting(tmp_path):
    with Turns(tmp_path / "nowhere").taken(), Turns(tmp_path / "nowhere").taken(0.1):
        pass


def test_the_lock_files_can_be_opened_by_every_user_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        with Turns(tmp_path).taken():
            pass
    finally:
        os.umask(before)
    assert [stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()] == [0o666, 0o666]


def test_a_link_in_the_place_of_a_lock_file_is_not_written_through(tmp_path):
    (tmp_path / "mine").write_text("of value")
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / MACHINE).symlink_to(tmp_path / "mine")
    with Turns(tmp_path / "locks").taken():
        pass
    assert (tmp_path / "mine").read_text() == "of value"
