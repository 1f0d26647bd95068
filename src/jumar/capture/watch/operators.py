"""Notes every aten operator: inputs before it runs, outputs after, where it belongs.

This is the hot path of a recording: it runs some thousand times a step. Attributes are read once, facts about an
operator or a module are looked up once, and every call that is not needed is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import Any

import torch

from jumar.capture.notes.attribution import Attribution, Origin, current_node
from jumar.capture.notes.calls import Call, Named, Seen
from jumar.capture.notes.operators import OperatorInfo, operator_info, tensors_in
from jumar.capture.notes.randomness import operator_digest
from jumar.capture.watch.naming import ModuleNames
from jumar.capture.watch.notebook import Notebook
from jumar.capture.watch.optimizers import OptimizerRows
from jumar.recording import Phase

Tensor = torch.Tensor
_See = Callable[[Tensor], Seen]

_INPUT = tuple(f"input.{position}" for position in range(64))
"""No aten operator has as many positional arguments."""


class OperatorWatch:
    """The handler of the dispatch mode. `in_optimizer` tells whether an optimizer works.

    Without `notes_optimizer_values` the operators of optimizers are noted without what is in their tensors.
    """

    def __init__(
        self,
        notebook: Notebook,
        attribution: Attribution,
        names: ModuleNames,
        in_optimizer: Callable[[], bool],
        optimizers: OptimizerRows,
        *,
        notes_optimizer_values: bool,
    ) -> None:
        self._notebook = notebook
        self._attribution = attribution
        self._names = names
        self._in_optimizer = in_optimizer
        self._optimizers = optimizers
        self.notes_optimizer_values = notes_optimizer_values
        self._of_parameters: dict[tuple[str, str], Origin] = {}

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator and return its result, noting it when the step is recorded."""
        notebook = self._notebook
        info = operator_info(func)
        if not notebook.is_open or notebook.watch.busy or info.is_marker or (info.is_view and notebook.skips_views):
            return func(*args, **kwargs)
        clock = notebook.clock
        began = perf_counter_ns()
        try:
            call, see = self._before(info, args, kwargs)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in the observer must not end the run
            notebook.on_failure(error)
            return func(*args, **kwargs)
        start = perf_counter_ns()
        own = clock.own = clock.own + start - began
        result = func(*args, **kwargs)
        end = perf_counter_ns()
        call.start_us = (start - own - notebook.step_start) / 1000
        call.duration_us = (end - start - (clock.own - own)) / 1000
        try:
            self._after(call, see, info, args, kwargs, result)
        except Exception as error:  # noqa: BLE001 - as above
            notebook.on_failure(error)
        clock.own += perf_counter_ns() - end
        return result

    def _before(self, info: OperatorInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Call, _See]:
        notebook = self._notebook
        origin, phase, source = self._origin()
        call = notebook.begin_operator(origin, phase, info, source)
        see = notebook.see if phase != "optimizer" or self.notes_optimizer_values else notebook.storages.outline
        if info.reads_later:
            see = notebook.storages.locate
        inputs = call.inputs
        found: list[Any] = []
        for position, value in enumerate(args):
            if isinstance(value, Tensor):
                inputs += (_INPUT[position], see(value))
            elif not isinstance(value, (list, tuple)) or not _note_list(inputs, _INPUT[position], value, see):
                found += (info.names[position], value)
        for name, value in kwargs.items():
            if isinstance(value, Tensor):
                inputs += (f"input.{name}", see(value))
            elif not isinstance(value, (list, tuple)) or not _note_list(inputs, f"input.{name}", value, see):
                found += (name, value)
        if found:
            call.arguments = found
        if info.draws:
            call.rng = operator_digest(args, kwargs)
        if call.wanted:
            notebook.keep(call, inputs, (args, kwargs))
        for probe in notebook.call_probes:
            probe.on_call(call, info, args, kwargs)
        if torch.is_grad_enabled():
            self._attribution.here().note(origin, call.source)
        return call, see

    def _after(
        self, call: Call, see: _See, info: OperatorInfo, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        notebook = self._notebook
        if info.writes:
            written = info.written(args, kwargs)
            for value in written:
                for tensor in tensors_in(value):
                    notebook.storages.note_write(tensor)
            if not info.returns_writes:
                _note_results(call.outputs, written, see)
        if not info.collective:
            if info.is_view and see == notebook.see:
                see = _sees_views(notebook, args)
            elif info.is_copy and see == notebook.see and len(call.inputs) == 2:
                see = partial(notebook.see_copy, call.inputs[1])
            elif info.is_uninitialised:  # what is in memory that was only allocated differs from run to run
                see = notebook.storages.locate
            _note_results(call.outputs, result, see)
            if call.wanted:
                notebook.keep(
                    call, call.outputs, result if info.returns_writes else (info.written(args, kwargs), result)
                )
        if info.writes:
            for value in written:
                for tensor in tensors_in(value):
                    notebook.storages.note_result(tensor)
        notebook.calls.append(call)

    def _origin(self) -> tuple[Origin, Phase, str]:
        """Return where an operator that runs now belongs, and its line when that is known from its forward."""
        stack = self._notebook.watch.stack
        node = current_node()
        if stack:  # a forward pass, or a forward recomputed within the backward pass
            origin = stack[-1].origin
            return origin, "forward" if node is None else "backward", origin.source
        if node is None:
            return self.outside()
        if node.name() == "torch::autograd::AccumulateGrad":
            return self.of_parameter(node.variable), "backward", ""
        origin, source = self._attribution.find(node._sequence_nr())
        return origin, "backward", source or origin.source

    def outside(self) -> tuple[Origin, Phase, str]:
        """Return where an operator belongs that runs outside of modules and of a backward pass."""
        if self._in_optimizer():
            return self._attribution.unknown, "optimizer", self._optimizers.source
        return self._attribution.unknown, "forward", ""

    def of_parameter(self, parameter: Tensor) -> Origin:
        """Return where a parameter belongs."""
        owner = self._names.of_parameter(parameter)
        origin = self._of_parameters.get(owner)
        if origin is None:
            origin = self._of_parameters[owner] = Origin(*owner)
        return origin


def _sees_views(notebook: Notebook, args: tuple[Any, ...]) -> _See:
    """Return how new views of the first argument are looked at."""
    base = args[0] if args and isinstance(args[0], Tensor) else None
    if base is None or base.is_inference():
        return notebook.see
    return partial(notebook.see, version=base._version)


def _note_list(found: Named, name: str, values: Any, see: _See) -> bool:
    """Note the tensors among `values`, the members of the argument or result `name`; False when there is none."""
    has_tensor = False
    for position, value in enumerate(values):
        if isinstance(value, Tensor):
            found += (f"{name}.{position}", see(value))
            has_tensor = True
    return has_tensor


def _note_results(found: Named, result: Any, see: _See) -> None:
    if isinstance(result, Tensor):
        found += ("output.0", see(result))
    elif isinstance(result, (list, tuple)):
        for position, value in enumerate(result):
            if isinstance(value, Tensor):
                found += (f"output.{position}", see(value))
            elif isinstance(value, (list, tuple)):
                _note_list(found, f"output.{position}", value, see)
