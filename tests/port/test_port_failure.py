"""The verdict's line names the error of the rank that failed, whatever else was printed around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.port.failure import Failure, is_consequence, printed

FRAMES = 'Traceback (most recent call last):\n  File "train.py", line 7, in main\n    step()\n'
LAUNCHER = (
    FRAMES
    + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    + "============\ntrain.py FAILED\n------------\nRoot Cause (first observed failure):\n[0]:\n"
    + "  exitcode  : {code} (pid: 9)\n============\n"
)
PREFIXED = f"[rank1]: {FRAMES}".replace("\n ", "\n[rank1]:  ") + "[rank1]: ValueError: planted\n"
PEER = FRAMES + "RuntimeError: [gloo/pair.cc:553] Connection closed by peer [127.0.0.1]:38291\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (FRAMES + "ValueError: planted\nsecond line of the message\n======\n", "ValueError: planted"),
        (FRAMES + "KeyError: 'a'\n\nDuring handling\n\n" + FRAMES + "ValueError: b\n", "ValueError: b"),
        (FRAMES + "AssertionError\n", "AssertionError"),
        (FRAMES + "x.ChildFailedError: \n=====\ntrain.py FAILED\n-----\n", "x.ChildFailedError: train.py FAILED"),
        ("loading\nbad configuration\n=======\n", "bad configuration"),
        ("  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: two\n", "| ExceptionGroup: two"),
        ("=====\n", ""),
    ],
)
def test_the_line_of_a_failure_names_the_error(text: str, line: str) -> None:
    assert Failure(text).line == line


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (FRAMES + "ValueError: planted\n" + PEER + LAUNCHER.format(code=1), "ValueError: planted"),
        (
            f"[rank1]: {FRAMES}".replace("\n ", "\n[rank1]:  ") + "[rank1]: ValueError: planted\n" + PEER,
            "ValueError: planted",
        ),
        (FRAMES + "OSError: handled\nrunning\nlast words\n" + LAUNCHER.format(code=-9), "killed by signal 9 (SIGKILL)"),
        (
            "terminate called after throwing an instance of 'c10::Error'\n  what():  no such device\n",
            "what():  no such device",
        ),
    ],
    ids=["launcher", "prefixed", "killed", "aborted"],
)
def test_the_error_of_a_log_is_no_launchers_and_none_of_a_lost_peer(tmp_path: Path, log: str, line: str) -> None:
    place = tmp_path / "run.log"
    place.write_text(log)
    assert printed(place).line.removeprefix("[rank1]: ") == line


def test_a_killed_process_is_said_to_be_killed_whatever_it_had_handled(tmp_path: Path) -> None:
    place = tmp_path / "run.log"
    place.write_text(FRAMES + "OSError: handled\nrunning\n")
    assert printed(place, killed_by=11).line == "killed by signal 11 (SIGSEGV)"


def test_a_log_that_is_not_there_shows_nothing(tmp_path: Path) -> None:
    assert printed(tmp_path / "run.log") == Failure("")


def test_a_lost_connection_is_a_consequence_and_an_error_of_the_script_is_none() -> None:
    assert is_consequence("RuntimeError: [gloo/pair.cc:553] Connection closed by peer [127.0.0.1]:38291")
    assert not is_consequence("RuntimeError: shapes differ")
