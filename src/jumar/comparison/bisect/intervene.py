"""Calculates chosen operators of a run differently, below the observer: the causal test."""

from __future__ import annotations

import atexit
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from jumar.capture.notes.attribution import Attribution, Origin, current_node
from jumar.capture.notes.operators import operator_info
from jumar.capture.watch.gradients import LossWatch
from jumar.capture.watch.naming import ModuleNames
from jumar.capture.watch.stack import Frame, ModuleHooks, ModuleWatch
from jumar.comparison.bisect.calculation import Failed, better, can_switch, put, results
from jumar.comparison.bisect.units import Intervention, unit_of


class InterveneMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs every operator as it is, and overwrites the results of the chosen ones with better ones.

    The run's own call is made as well, so that dtypes, strides, aliasing, streams and random numbers do not change.
    """

    def __init__(self, intervention: Intervention) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._intervention = intervention
        self._where = Where()
        self.switched: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def start(self) -> None:
        """Follow the modules and take the place below whatever is entered later."""
        self._where.start()
        self.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """Take the place away again."""
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._where.stop()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        origin = self._where.now()
        if not isinstance(func, torch._ops.OpOverload) or not can_switch(func):
            return func(*args, **kwargs)
        unit = unit_of(operator_info(func).name, origin.module_path)
        if unit not in self._intervention.units:
            return func(*args, **kwargs)
        with torch.no_grad():
            try:
                values = better(func, args, kwargs, self._intervention.how)
            except Failed as failure:
                self.failed[str(failure)] += 1
                return func(*args, **kwargs)
            result = func(*args, **kwargs)
            put(values, list(results(func, args, kwargs, result)))
        self.switched[str(unit)] += 1
        return result

    def write_report(self) -> None:
        """Say how often each unit was switched, in a file of this process."""
        folder = self._intervention.report
        if folder:
            text = json.dumps({"switched": self.switched, "failed": self.failed})
            Path(folder, f"process-{os.getpid()}.json").write_text(text, "utf-8")


def start() -> None:
    """Begin the intervention that the environment names, if any; the plug-in of a run."""
    intervention = Intervention.from_environment(os.environ)
    if intervention is None:
        return
    mode = InterveneMode(intervention)
    mode.start()
    atexit.register(mode.write_report)


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
        """Return the module of the operator that runs now, and note it for the operator's autograd node."""
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
