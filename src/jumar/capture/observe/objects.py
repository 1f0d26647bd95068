"""`ObjectCollectives`: Python objects that ranks send each other, pickled in tensors, are no part of a calculation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from jumar.capture.notes.patches import Patches
from jumar.capture.watch.stack import ModuleWatch

_NAMES = (
    "broadcast_object_list",
    "all_gather_object",
    "gather_object",
    "scatter_object_list",
    "send_object_list",
    "recv_object_list",
)


class ObjectCollectives:
    """Leaves out the operators of these functions: a path or a time is another one in each run."""

    def __init__(self, watch: ModuleWatch) -> None:
        self._watch = watch
        self._patches = Patches()

    def start(self) -> None:
        """Begin to leave them out."""
        if not torch.distributed.is_available():
            return
        for module in (torch.distributed.distributed_c10d, torch.distributed):
            for name in _NAMES:
                if name in module.__dict__:
                    self._patches.around(module, name, self._aside)

    def stop(self) -> None:
        """Put the functions back."""
        self._patches.restore()

    @contextmanager
    def _aside(self, *_args: Any, **_kwargs: Any) -> Iterator[None]:
        was_busy, self._watch.busy = self._watch.busy, True
        try:
            yield
        finally:
            self._watch.busy = was_busy
