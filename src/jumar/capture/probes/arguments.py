"""The arguments of an operator that are not tensors, by the names of its schema."""

from __future__ import annotations

from typing import Any

import torch

from jumar.capture.calls import Call
from jumar.capture.operators import OperatorInfo
from jumar.capture.probes.base import Probe


class ArgumentsProbe(Probe):
    """Notes the values; they become JSON when the row is written, off the run's time."""

    def on_call(self, call: Call, info: OperatorInfo | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the arguments that hold no tensor."""
        if info is None:
            return
        found: list[Any] = []
        names = info.names
        for position, value in enumerate(args):
            if not _holds_tensor(value):
                found.append(names[position] if position < len(names) else str(position))
                found.append(value)
        for name, value in kwargs.items():
            if not _holds_tensor(value):
                found.append(name)
                found.append(value)
        if found:
            call.arguments = found


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    return isinstance(value, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in value)
