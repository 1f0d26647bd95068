"""Batches copied to the device ahead of their use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

__all__ = ["Prefetcher"]


class Prefetcher:
    """Copies the next (input, target) of a loader to the npu on a stream of its own.

    `next` returns a pair of npu tensors, and (None, None) when the loader has ended.
    """

    def __init__(self, loader: Iterable[Any], stream: Any = None) -> None:
        self._npu: Any = torch.npu  # type: ignore[attr-defined]
        self.loader = iter(loader)
        self.stream = self._npu.Stream() if stream is None else stream
        self.preload()

    def preload(self) -> None:
        """Take a batch from the loader and start its copies."""
        self.next_input: Any
        self.next_target: Any
        try:
            self.next_input, self.next_target = next(self.loader)
        except StopIteration:
            self.next_input = self.next_target = None
            return
        with self._npu.stream(self.stream):
            self.next_input = self.next_input.npu(non_blocking=True)
            self.next_target = self.next_target.npu(non_blocking=True)

    def next(self) -> tuple[Any, Any]:
        """Return the batch that was taken last, and take another."""
        self._npu.current_stream().wait_stream(self.stream)
        batch = self.next_input, self.next_target
        if self.next_target is not None:
            self.preload()
        return batch
