"""Engines with threads of their own, in a process that was forked from the one that loaded them.

Threads do not come along: what waits for them waits for ever.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from jumar.tune.model.errors import TuneError

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


def one_a_call(first: Callable[..., Any], another: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """Return a function that hands each call to `first`, or to one that `another` made: one that is not in use.

    Memory that a session, a request or an arena computes in is written by each call, so that calls at the same time
    would read each other's values. As many are made as calls ever ran at once.
    """
    free = [first]

    def call(*arguments: Any) -> Any:
        try:
            one = free.pop()  # NOTE: atomic, as is `append`; a lock would let one call run at a time
        except IndexError:
            one = _made(another)
        try:
            return one(*arguments)
        finally:
            free.append(one)

    return call


def _made(another: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """Call `another` outside of the caller's inference mode: memory made there could not be written to elsewhere."""
    import torch  # heavy, and engines are described without it

    with torch.inference_mode(False):
        return another()
