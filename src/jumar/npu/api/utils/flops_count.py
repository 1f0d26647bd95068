"""`torch_npu.utils.FlopsCounter`: floating-point operations of the matrix operators that run on the device.

The formulas are those of `jumar.operators.flops`: matrix products, convolutions, attention and their backward,
a multiply-add as two operations.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from jumar.npu.core.events import OperatorEvent, listen
from jumar.operators.flops import flops
from jumar.operators.schemas import schema

__all__ = ["FlopsCounter"]


class _Count:
    """The one count of the process. As with the vendor's, all counter objects share it."""

    def __init__(self) -> None:
        self.recorded = self.traversed = 0
        self.is_paused = False
        self.listening: contextlib.ExitStack | None = None

    def enable(self) -> None:
        if self.listening is None:
            self.listening = contextlib.ExitStack()
            self.listening.enter_context(listen(self.told))

    def reset(self) -> None:
        if self.listening is not None:
            self.listening.close()
        self.__init__()  # type: ignore[misc]

    def told(self, event: OperatorEvent) -> None:
        flops = _flops(event)
        self.traversed += flops
        if not self.is_paused:
            self.recorded += flops


_COUNT = _Count()


class FlopsCounter:
    """Counts between `start` and `stop`; what runs while it is paused counts as traversed, not as recorded."""

    def __enter__(self) -> FlopsCounter:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to count."""
        _COUNT.enable()

    def stop(self) -> None:
        """Stop counting and set both counts to 0: read them before."""
        _COUNT.reset()

    def pause(self) -> None:
        """Leave what follows out of the recorded count."""
        _COUNT.is_paused = True

    def resume(self) -> None:
        """Take what follows into the recorded count again."""
        _COUNT.is_paused = False

    def get_flops(self) -> list[int]:
        """Return the recorded and the traversed count."""
        return [_COUNT.recorded, _COUNT.traversed]


def _flops(event: OperatorEvent) -> int:
    known = schema(event.operator)
    arguments = {**dict(zip(known.names if known else (), event.args, strict=False)), **event.kwargs}
    inputs, outputs = _shapes((event.args, event.kwargs)), _shapes(event.result)
    return flops(event.operator, inputs, outputs, arguments) or 0


def _shapes(values: Any) -> list[tuple[int, ...]]:
    return [tuple(leaf.shape) for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
