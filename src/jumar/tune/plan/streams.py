"""Pieces that run at once: one thread for each stream, which takes its pieces one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from jumar.tune.engines.forked import num_forks

Runner = Callable[[Sequence[Callable[[], None]]], None]


def one_after_the_other(pieces: Sequence[Callable[[], None]]) -> None:
    """Compute the pieces in order."""
    for compute in pieces:
        compute()


def at_once(num_streams: int, num_threads: int) -> Runner:
    """Return what computes pieces in `num_streams` threads, each with `num_threads` of its own.

    The calling thread is one of them; a forked process makes its own. Piece `i` belongs to stream `i` modulo
    `num_streams`, always. What a piece raises is raised to the caller, after all streams have ended.
    """
    made: dict[int, list[ThreadPoolExecutor]] = {}

    def run(pieces: Sequence[Callable[[], None]]) -> None:
        pools = made.get(num_forks())
        if pools is None:
            pools = made.setdefault(num_forks(), _pools(num_streams - 1, num_threads))
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        waiting = [pool.submit(_carry_out, pieces[stream::num_streams], *modes) for stream, pool in enumerate(pools, 1)]
        try:
            one_after_the_other(pieces[::num_streams])
        finally:
            errors = [future.exception() for future in waiting]
        for error in errors:
            if error is not None:
                raise error

    return run


def _pools(count: int, num_threads: int) -> list[ThreadPoolExecutor]:
    return [ThreadPoolExecutor(1, "jumar-stream", torch.set_num_threads, (num_threads,)) for _ in range(count)]


def _carry_out(pieces: Sequence[Callable[[], None]], grad: bool, inference: bool) -> None:
    """Compute pieces in this thread under the caller's modes, which PyTorch keeps by thread."""
    with torch.inference_mode(inference), torch.set_grad_enabled(grad):
        one_after_the_other(pieces)
