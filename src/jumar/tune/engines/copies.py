"""What is of use to one call at a time, for calls from any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
