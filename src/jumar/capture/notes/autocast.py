"""`AutocastWatch`: whether code runs inside autocast. Below autocast's dispatch PyTorch does not tell."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from jumar.capture.notes.patches import Patches


class _Stack(threading.local):
    def __init__(self) -> None:
        self.dtypes = [_now()]


def _now() -> str:
    """Return the dtype of the autocast region this thread is in; empty outside."""
    for kind in ("npu", "cuda", "cpu"):
        try:
            enabled = torch.is_autocast_enabled(kind)
        except RuntimeError:  # a device type this build does not know
            continue
        if enabled:
            return str(torch.get_autocast_dtype(kind)).removeprefix("torch.")
    return ""


class AutocastWatch:
    """Follows autocast regions from when it is started."""

    def __init__(self) -> None:
        self.stack = _Stack()
        self._patches = Patches()

    @property
    def dtype(self) -> str:
        """`float16` or `bfloat16` inside an enabled region, else empty."""
        return self.stack.dtypes[-1]

    def start(self) -> None:
        """Begin to follow."""
        self._patches.around(torch.amp.autocast, "__enter__", self._around_enter)
        self._patches.around(torch.amp.autocast, "__exit__", self._around_exit)

    def stop(self) -> None:
        """Take the wrappers away."""
        self._patches.restore()

    @contextmanager
    def _around_enter(self, region: Any) -> Iterator[None]:
        yield
        enabled = region._enabled
        self.stack.dtypes.append(str(region.fast_dtype).removeprefix("torch.") if enabled else "")

    @contextmanager
    def _around_exit(self, *_: Any) -> Iterator[None]:
        if len(self.stack.dtypes) > 1:
            self.stack.dtypes.pop()
        yield
