"""`PauseWatch`: when Python's garbage collector runs, and who waits for the device or empties its memory pool."""

from __future__ import annotations

import functools
import gc
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import jumar
from jumar.capture.notes.patches import Patches
from jumar.capture.profile.log import EventLog

LEAST_NS = 100_000
"""Collections that are shorter are counted and summed, but are no events: there are thousands of them."""

CALLS = ("synchronize", "empty_cache")
_MODULES = (
    *("torch.cuda", "torch.cuda.memory", "torch.npu", "torch_npu.npu"),
    *("torch.accelerator", "torch.accelerator.memory"),
)
_CLASSES = ("Stream", "Event")
_INSIDE = tuple(str(Path(package.__file__ or "").parent) for package in (torch, jumar))
"""Folders whose frames are not the caller's."""


class PauseWatch:
    """Takes events from `start` to `stop`."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._patches = Patches()
        self._began_ns = 0
        self.collections: dict[int, list[float]] = {}
        """By generation: number of collections, and their milliseconds in all."""

    def start(self) -> None:
        """Begin. Modules that are not imported yet are not watched."""
        gc.callbacks.append(self._on_collection)
        for owner, name, shown in _found():
            self._patches.replace(owner, name, self._around(owner.__dict__[name], shown))

    def stop(self) -> None:
        """End."""
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)
        self._patches.restore()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        now = time.time_ns()
        if phase == "start":
            self._began_ns = now
            return
        duration = now - self._began_ns
        tally = self.collections.setdefault(info["generation"], [0, 0.0])
        tally[0] += 1
        tally[1] += duration / 1e6
        if duration >= LEAST_NS:
            self._log.add(f"gc generation {info['generation']}", self._began_ns, duration, collected=info["collected"])

    def _around(self, function: Callable[..., Any], shown: str) -> Callable[..., Any]:
        log = self._log

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.time_ns()
            try:
                return function(*args, **kwargs)
            finally:
                log.add(shown, begin, time.time_ns() - begin, source=caller())

        return timed


def caller() -> str:
    """Return the line of the user's code that is running: `train.py:12`, seen from the working folder."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame = frame.f_back
    return source_line(frame.f_code.co_filename, frame.f_lineno)


def source_line(file: str, line: int) -> str:
    """Return `train.py:12`; a file below the working folder is named from there."""
    path = Path(file)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{shown}:{line}"


def _found() -> Iterator[tuple[Any, str, str]]:
    """Yield owner, name and what to show of each function to watch that is there."""
    for module_name in _MODULES:
        module = sys.modules.get(module_name)
        if module is None:
            continue
        shown = module_name.removesuffix(".memory").replace("torch_npu.npu", "torch.npu")
        for name in CALLS:
            if callable(module.__dict__.get(name)):
                yield module, name, f"{shown}.{name}"
        for name in _CLASSES:
            kind = module.__dict__.get(name)
            if isinstance(kind, type) and "synchronize" in kind.__dict__:
                yield kind, "synchronize", f"{shown}.{name}.synchronize"
