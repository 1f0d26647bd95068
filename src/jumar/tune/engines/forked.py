"""Engines with threads of their own, in a process that was forked from the one that loaded them.

Threads do not come along: what waits for them waits for ever.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from jumar.tune.errors import TuneError

_forks = [0]


def num_forks() -> int:
    """Return how often this process was forked from one that had imported this module: what tells it from those."""
    return _forks[0]


def at_home(run: Callable[..., Any], engine: str) -> Callable[..., Any]:
    """Return `run`, which raises TuneError in a process that is forked from this one, in place of waiting for ever."""
    home = num_forks()

    def call(*arguments: Any) -> Any:
        if _forks[0] != home:
            raise TuneError(
                f"{engine} was loaded before this process was forked, and its threads stayed behind. Load or compile "
                "the model in each process."
            )
        return run(*arguments)

    return call


def _count() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_count)
