"""Functions that worker processes are given in the tests of the pool."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


def square(number: int) -> int:
    return number * number


def talkative(number: int) -> int:
    print("noise on standard output")
    os.write(1, b"more noise")
    return number


def fails_on_three(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number


def raises_what_cannot_travel(number: int) -> int:
    class Local(Exception):
        pass

    raise Local("stays here")


def dies_on_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def dies_once(item: tuple[int, str]) -> int:
    number, marker = item
    if number == 3 and not Path(marker).exists():
        Path(marker).write_text("died")
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def leaves_on_three(number: int) -> int:
    if number == 3:
        os._exit(7)
    return number


def sleeps(item: tuple[str, float]) -> None:
    folder, seconds = item
    (Path(folder) / str(os.getpid())).write_text(" ".join(sys.argv))
    time.sleep(seconds)
