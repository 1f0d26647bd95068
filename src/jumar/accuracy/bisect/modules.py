"""Where in the model an operator runs, without a recording: the observer's own parts, put together anew."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from jumar.capture.attribution import Attribution, Origin, current_node
from jumar.capture.gradients import LossWatch
from jumar.capture.modules import Frame, ModuleHooks, ModuleWatch
from jumar.capture.naming import ModuleNames


class Where:
    """Knows the module path of the operator that runs now, as a recording of the run would give it."""

    def __init__(self) -> None:
        self._names = ModuleNames()
        self._watch = ModuleWatch()
        self._attribution = Attribution()
        self._hooks = ModuleHooks(self._names, self, self._watch)
        self._losses = LossWatch(lambda _: None, self._attribution.enter_backward, self._attribution.leave_backward)

    def start(self) -> None:
        """Begin to follow module calls and backward passes."""
        self._hooks.start()
        self._losses.start()

    def stop(self) -> None:
        """Follow them no longer."""
        self._hooks.stop()
        self._losses.stop()

    def now(self) -> Origin:
        """Return where the operator that runs now belongs, and note that autograd's node of it does."""
        origin = self._find()
        if torch.is_grad_enabled():
            self._attribution.here().note(origin, "")
        return origin

    def _find(self) -> Origin:
        stack = self._watch.stack
        if stack:
            return stack[-1].origin
        node = current_node()
        if node is None:
            return self._attribution.unknown
        if node.name() == "torch::autograd::AccumulateGrad":
            return Origin(*self._names.of_parameter(node.variable))
        return self._attribution.find(node._sequence_nr())[0]

    def on_root(self, module: nn.Module) -> None:
        """See `ModuleListener`."""

    def on_enter(self, frame: Frame, args: tuple[Any, ...]) -> None:
        """See `ModuleListener`."""
        frame.call = self  # asks to be told when the call ends
        if torch.is_grad_enabled():
            self._attribution.here().enter(frame.origin)

    def on_leave(self, frame: Frame, kwargs: dict[str, Any], output: Any, parent: Frame | None) -> None:
        """See `ModuleListener`."""
        if torch.is_grad_enabled() and parent is not None:
            self._attribution.here().enter(parent.origin)
