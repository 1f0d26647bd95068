"""The arguments of an operator that are not tensors, by the names of its schema."""

from __future__ import annotations

from typing import Any

import torch

from jumar.capture.probes.base import CallContext, Probe


class ArgumentsProbe(Probe):
    """Notes the values; they become JSON when the row is written, off the run's time."""

    def on_call(self, context: CallContext) -> None:
        """Note the arguments that hold no tensor."""
        if context.info is None:
            return
        names = context.info.names
        found = [
            (names[position] if position < len(names) else str(position), value)
            for position, value in enumerate(context.args)
            if not _holds_tensor(value)
        ]
        found += [(name, value) for name, value in context.kwargs.items() if not _holds_tensor(value)]
        if found:
            context.call.arguments = found


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    return isinstance(value, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in value)
