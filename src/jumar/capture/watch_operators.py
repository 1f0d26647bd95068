"""Notes every aten operator: inputs before it runs, outputs after, where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import torch

from jumar.capture.attribution import Attribution, Origin, current_node
from jumar.capture.calls import Call
from jumar.capture.naming import ModuleNames
from jumar.capture.notebook import Notebook
from jumar.capture.operators import OperatorInfo, operator_info, tensors_in
from jumar.recording import Phase

Tensor = torch.Tensor

_INPUT = tuple(f"input.{position}" for position in range(64))
"""No aten operator has as many positional arguments."""


class OperatorWatch:
    """The handler of the dispatch mode. `in_optimizer` tells whether an optimizer works."""

    def __init__(
        self, notebook: Notebook, attribution: Attribution, names: ModuleNames, in_optimizer: Callable[[], bool]
    ) -> None:
        self._notebook = notebook
        self._attribution = attribution
        self._names = names
        self._in_optimizer = in_optimizer

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator and return its result, noting it when the step is recorded."""
        notebook = self._notebook
        info = operator_info(func)
        if not notebook.takes_notes or info.is_marker or (notebook.skips_views and info.is_view):
            return func(*args, **kwargs)
        clock = notebook.clock
        began = perf_counter_ns()
        call = notebook.guarded(self._before, info, args, kwargs)
        start = perf_counter_ns()
        clock.own += start - began
        if call is None:
            return func(*args, **kwargs)
        own = clock.own
        result = func(*args, **kwargs)
        end = perf_counter_ns()
        call.start_us = (start - own - notebook.step_start) / 1000
        call.duration_us = (end - start - (clock.own - own)) / 1000
        notebook.guarded(self._after, call, info, args, kwargs, result)
        clock.own += perf_counter_ns() - end
        return result

    def _before(self, info: OperatorInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        notebook = self._notebook
        origin, phase = self._origin()
        call = Call("op", phase, origin.module_path, origin.module_type, info.name)
        call.occurrence = notebook.next_occurrence(call)
        call.source = origin.source
        call.autocast = notebook.autocast.dtype
        inputs = call.inputs
        for position, value in enumerate(args):
            if isinstance(value, Tensor):
                inputs += (_INPUT[position], notebook.see(value))
            elif isinstance(value, (list, tuple)):
                notebook.see_list(inputs, _INPUT[position], value)
        for name, value in kwargs.items():
            if isinstance(value, Tensor):
                inputs += (f"input.{name}", notebook.see(value))
            elif isinstance(value, (list, tuple)):
                notebook.see_list(inputs, f"input.{name}", value)
        notebook.keep(call, inputs, (args, kwargs))
        for probe in notebook.probes:
            probe.on_call(call, info, args, kwargs)
        if torch.is_grad_enabled():
            self._attribution.here().note(origin if origin.source else origin._replace(source=call.source))
        return call

    def _after(
        self, call: Call, info: OperatorInfo, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        if info.writes:
            written = info.written(args, kwargs)
            for value in written:
                for tensor in tensors_in(value):
                    self._notebook.storages.note_write(tensor)
            if not info.returns_writes:
                self._see_outputs(call, written)
        if not info.collective:
            self._see_outputs(call, result)
            self._notebook.keep(
                call, call.outputs, result if info.returns_writes else (info.written(args, kwargs), result)
            )
        self._notebook.calls.append(call)

    def _see_outputs(self, call: Call, result: Any) -> None:
        notebook, outputs = self._notebook, call.outputs
        if isinstance(result, Tensor):
            outputs += ("output.0", notebook.see(result))
        elif isinstance(result, (list, tuple)):
            for position, value in enumerate(result):
                if isinstance(value, Tensor):
                    outputs += (f"output.{position}", notebook.see(value))
                elif isinstance(value, (list, tuple)):
                    notebook.see_list(outputs, f"output.{position}", value)

    def _origin(self) -> tuple[Origin, Phase]:
        """Return where an operator that runs now belongs."""
        stack = self._notebook.watch.stack
        node = current_node()
        if stack:  # a forward pass, or a forward recomputed within the backward pass
            return stack[-1].origin, "forward" if node is None else "backward"
        if node is None:
            return Origin(), "optimizer" if self._in_optimizer() else "forward"
        if node.name() == "torch::autograd::AccumulateGrad":
            return Origin(*self._names.of_parameter(node.variable)), "backward"
        return self._attribution.find(node), "backward"
