"""Sessions of engines: inputs and outputs whose memory a session reads and writes, and sessions in a forked process.

Engines have threads of their own, which do not live on in a process that was forked from the one that loaded them.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jumar.tune.model.errors import TuneError


class Port(ABC):
    """One input or output. Small ones go through memory of their own that is named to the engine once."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, staged_bytes: int) -> None:
        self._shape, self._dtype = shape, dtype
        staged = self._empty()
        self.staged: torch.Tensor | None = staged if staged.nbytes <= staged_bytes else None

    @abstractmethod
    def bind(self, tensor: torch.Tensor) -> None:
        """Name the tensor's memory to the engine."""

    def fresh(self) -> torch.Tensor:
        """Return new memory that is bound."""
        tensor = self._empty()
        self.bind(tensor)
        return tensor

    def _empty(self) -> torch.Tensor:
        return torch.empty(self._shape, dtype=self._dtype, device="cpu")  # whatever the default device is


def run_through(
    inputs: Sequence[Port | None], outputs: Sequence[Port], run: Callable[[], None], given: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Hand `given` to the engine, `run` it, and return its outputs in memory that later calls leave alone.

    An input that is None is read by nothing.
    """
    for port, tensor in zip(inputs, given, strict=True):
        if port is None:
            continue
        if port.staged is None:
            port.bind(tensor)
        else:
            port.staged.copy_(tensor)
    made = [port.fresh() if port.staged is None else port.staged for port in outputs]
    run()
    return [tensor if port.staged is None else tensor.clone() for port, tensor in zip(outputs, made, strict=True)]


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
