"""The one place where a run is observed: operators, modules, gradients, losses, steps."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import torch
from torch import nn

from jumar.capture.attribution import Attribution, Origin, current_node
from jumar.capture.autocast import AutocastWatch
from jumar.capture.calls import Call, Named
from jumar.capture.clock import RunClock
from jumar.capture.gradients import GradientHooks, LossWatch, Pending
from jumar.capture.mode import ObserverMode
from jumar.capture.modules import Frame, ModuleHooks
from jumar.capture.naming import ModuleNames
from jumar.capture.operators import OperatorInfo, operator_info, tensors_in
from jumar.capture.probes import Probe, StatsProbe
from jumar.capture.steps import StepWatch
from jumar.capture.storages import StorageTable
from jumar.recording import Kind, Level, Phase

Tensor = torch.Tensor
OnStep = Callable[[int, Sequence[Call]], bool]
"""Takes a finished step and its calls; returns False when nothing more is wanted."""


_INPUT = tuple(f"input.{position}" for position in range(64))
"""No aten operator has as many positional arguments."""


class StopRun(SystemExit):
    """Raised in the script when the steps asked for are done; `except Exception` does not swallow it.

    It is a SystemExit with code 0, so that a spawned process it ends counts as well ended.
    """

    def __init__(self) -> None:
        super().__init__(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverOptions:
    """What to observe."""

    levels: tuple[Level, ...] = ("module", "op")
    steps: tuple[int, int] | None = None
    stop_after: int | None = None
    """Raise `StopRun` in the script after this many completed steps."""


class Observer:
    """Observes this process from `start` to `stop` and hands each recorded step to `on_step`.

    Without probes and levels it only counts steps. One observer at a time may be started in a process.
    """

    def __init__(
        self,
        options: ObserverOptions,
        probes: Sequence[Probe],
        on_step: OnStep | None,
        model: nn.Module | None = None,
    ) -> None:
        self._options = options
        self._on_step = on_step
        self._probes = list(probes)
        self._loss_stats = StatsProbe()
        self._names = ModuleNames(model)
        self._modules = ModuleHooks(self._names, self)
        self._gradients = GradientHooks(self._on_gradient)
        self._losses = LossWatch(self._on_loss, self._enter_backward, self._leave_backward)
        self._attribution = Attribution()
        self._autocast = AutocastWatch()
        self._steps = StepWatch(self._end_step)
        self._storages = StorageTable()
        self._clock = RunClock()
        self._mode = ObserverMode(self._operator)
        self._wanted = on_step is not None
        self._recording = False
        self._observes_operators = "op" in options.levels
        self._observes_modules = "module" in options.levels
        self._begin_step()
        self.was_stopped = False
        """Whether `StopRun` was raised."""
        self.step = 0
        """Number of completed steps, which is the number of the step under way."""
        self.not_covered: dict[str, None] = {}
        """Sentences on what could not be observed, in the order in which that was noticed."""

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to observe."""
        self._steps.start()
        self._modules.start()
        if self._wanted:
            self._losses.start()
            self._autocast.start()
        self._update_recording()

    def stop(self) -> None:
        """End observing; what was not a complete step is dropped."""
        self._wanted = False
        self._update_recording()
        self._steps.stop()
        self._modules.stop()
        self._losses.stop()
        self._autocast.stop()
        self._gradients.end_step()
        self._storages.clear()

    def finish(self, *, complete: bool) -> None:
        """Stop at the end of the program; when it is `complete`, a last step that nothing else ends is ended."""
        if complete and self._calls and (self._steps.last_step_is_open or not self.step):
            self._hand_over()
        self.stop()

    def expect_optimizer(self) -> None:
        """Tell that an optimizer is being made just now."""
        self._steps.expect_optimizer()

    def catch_up(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Tell that `start` was called on the way into this outermost module call."""
        self._modules.before(module, args)

    def drop_after_fork(self) -> None:
        """Stop in a forked child without touching what the parent writes."""
        self._on_step = None
        self._recording = self._wanted = False
        self._mode.leave_if_on_top()

    @property
    def is_recording(self) -> bool:
        """Whether the step under way is being recorded."""
        return self._recording

    # -- steps --------------------------------------------------------------------------------

    def _begin_step(self) -> None:
        self._calls: list[Call] = []
        self._occurrences: dict[tuple[str, str, str, str], int] = {}
        self._unfinished: dict[int, Call] = {}
        self._step_start = self._clock.now()

    def _end_step(self) -> None:
        self._hand_over()
        if self._options.stop_after is not None and self.step >= self._options.stop_after:
            self.was_stopped = True
            raise StopRun

    def _hand_over(self) -> None:
        with self._own_work():
            if self._recording:
                self._calls += self._unfinished.values()
                for probe in (*self._probes, self._loss_stats):
                    probe.on_step_end(self._calls)
                if self._on_step is None or not self._on_step(self.step, self._calls):
                    self._wanted = False
        self.step += 1
        self._storages.clear()
        self._gradients.end_step()
        self._attribution.end_step()
        self._update_recording()
        self._begin_step()

    def _update_recording(self) -> None:
        first, end = self._options.steps or (0, sys.maxsize)
        self._recording = self._wanted and first <= self.step < end
        if self.step >= end:
            self._wanted = False
        if self._recording and self._observes_operators:
            self._mode.enter()
        else:
            self._mode.leave_if_on_top()

    @contextmanager
    def _own_work(self) -> Iterator[None]:
        """Nothing that runs inside is part of the run: not recorded, not timed, not differentiated.

        Should it fail, the recording ends and the run goes on.
        """
        watch = self._modules.watch
        was_busy, watch.busy = watch.busy, True
        self._clock.pause()
        try:
            with torch.no_grad():
                yield
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in the observer must not end the run
            self._fail(error)
        finally:
            self._clock.resume()
            watch.busy = was_busy

    def _fail(self, error: Exception) -> None:
        self.not_covered[
            f"the recording stopped in step {self.step}, because the observer failed: {type(error).__name__}: {error}"
        ] = None
        self._wanted = False
        self._update_recording()
        self._calls = []

    # -- operators ----------------------------------------------------------------------------

    def _operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator, noting it."""
        info = operator_info(func)
        if not self._recording or self._modules.watch.busy or info.is_marker:
            return func(*args, **kwargs)
        clock = self._clock
        began = perf_counter_ns()
        call = self._guarded(self._before_operator, info, args, kwargs)
        start = perf_counter_ns()
        clock.own += start - began
        if call is None:
            return func(*args, **kwargs)
        own = clock.own
        result = func(*args, **kwargs)
        end = perf_counter_ns()
        call.start_us = (start - own - self._step_start) / 1000
        call.duration_us = (end - start - (clock.own - own)) / 1000
        self._guarded(self._after_operator, call, info, args, kwargs, result)
        clock.own += perf_counter_ns() - end
        return result

    def _guarded(self, work: Callable[..., Call | None], *args: Any) -> Call | None:
        """Do the observer's work; should it fail, the recording ends and the run goes on."""
        try:
            return work(*args)
        except Exception as error:  # noqa: BLE001 - as in _own_work
            self._fail(error)
            return None

    def _before_operator(self, info: OperatorInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        origin, phase = self._origin()
        call = Call("op", phase, origin.module_path, origin.module_type, info.name)
        call.occurrence = self._next_occurrence(call)
        call.source = origin.source
        call.autocast = self._autocast.dtype
        inputs = call.inputs
        for position, value in enumerate(args):
            if isinstance(value, Tensor):
                inputs.append(_INPUT[position])
                inputs.append(self._see(value))
            elif isinstance(value, (list, tuple)):
                self._see_list(inputs, _INPUT[position], value)
        for name, value in kwargs.items():
            if isinstance(value, Tensor):
                inputs += (f"input.{name}", self._see(value))
            elif isinstance(value, (list, tuple)):
                self._see_list(inputs, f"input.{name}", value)
        for probe in self._probes:
            probe.on_call(call, info, args, kwargs)
        if torch.is_grad_enabled():
            self._attribution.here().note(origin if origin.source else origin._replace(source=call.source))
        return call

    def _after_operator(
        self, call: Call, info: OperatorInfo, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        if info.writes:
            written = info.written(args, kwargs)
            for value in written:
                for tensor in tensors_in(value):
                    self._storages.note_write(tensor)
            if not info.returns_writes:
                self._see_outputs(call, written)
        if not info.collective:
            self._see_outputs(call, result)
        self._calls.append(call)

    def _see_outputs(self, call: Call, result: Any) -> None:
        outputs = call.outputs
        if isinstance(result, Tensor):
            outputs += ("output.0", self._see(result))
        elif isinstance(result, (list, tuple)):
            for position, value in enumerate(result):
                if isinstance(value, Tensor):
                    outputs += (f"output.{position}", self._see(value))
                elif isinstance(value, (list, tuple)):
                    self._see_list(outputs, f"output.{position}", value)

    def _origin(self) -> tuple[Origin, Phase]:
        """Return where an operator that runs now belongs."""
        stack = self._modules.watch.stack
        node = current_node()
        if stack:  # a forward pass, or a forward recomputed within the backward pass
            return stack[-1].origin, "forward" if node is None else "backward"
        if node is None:
            return Origin(), "optimizer" if self._steps.depth else "forward"
        if node.name() == "torch::autograd::AccumulateGrad":
            return Origin(*self._names.of_parameter(node.variable)), "backward"
        return self._attribution.find(node), "backward"

    def _next_occurrence(self, call: Call) -> int:
        key = (call.kind, call.phase, call.module_path, call.name)
        number = self._occurrences.get(key, 0)
        self._occurrences[key] = number + 1
        return number

    # -- tensors ------------------------------------------------------------------------------

    def _see_list(self, found: Named, name: str, values: Sequence[Any]) -> None:
        for position, value in enumerate(values):
            if isinstance(value, Tensor):
                found += (f"{name}.{position}", self._see(value))

    def _see_all(self, tensors: Iterable[tuple[str, Tensor]]) -> Named:
        found: Named = []
        for name, tensor in tensors:
            found += (name, self._see(tensor))
        return found

    def _see(self, tensor: Tensor) -> Any:
        seen, is_new = self._storages.find(tensor)
        if is_new and not _is_wrapper(tensor):
            for probe in self._probes:
                probe.on_tensor(seen, tensor)
        return seen

    # -- modules ------------------------------------------------------------------------------

    def on_root(self, module: nn.Module) -> None:
        """See `ModuleListener`."""
        if next(module.parameters(), None) is not None:
            self._steps.on_root_call()
        if self._recording and self._observes_operators and not self._mode.is_on_stack():
            self.not_covered[
                f"operators that run on the thread {threading.current_thread().name} "
                f"({type(module).__name__} is called there)"
            ] = None

    def on_enter(self, frame: Frame, args: tuple[Any, ...]) -> None:
        """See `ModuleListener`."""
        if not self._recording or self._modules.watch.busy:
            return
        if torch.is_grad_enabled():
            self._attribution.here().note(frame.origin, boundary=True)
        if not self._observes_modules:
            return
        with self._own_work():
            phase: Phase = "forward" if current_node() is None else "backward"
            call = self._new_call("module", phase, frame.path, frame.type_name, frame.type_name)
            tensors = list(named_tensors("input", args))
            call.inputs = self._see_all(tensors)
            call.start_us = (self._clock.now() - self._step_start) / 1000
            frame.call = call, tensors

    def on_leave(self, frame: Frame, kwargs: dict[str, Any], output: Any, parent: Frame | None) -> None:
        """See `ModuleListener`."""
        if not self._recording or self._modules.watch.busy:
            return
        if torch.is_grad_enabled() and parent is not None:
            self._attribution.here().note(parent.origin, boundary=True)
        if frame.call is None or output is None:
            return
        call, inputs = frame.call
        call.duration_us = (self._clock.now() - self._step_start) / 1000 - call.start_us
        with self._own_work():
            keywords = list(named_tensors("input", kwargs))
            outputs = list(named_tensors("output", output if isinstance(output, (tuple, list, dict)) else (output,)))
            call.inputs += self._see_all(keywords)
            call.outputs = self._see_all(outputs)
            self._calls.append(call)
            self._gradients.attach(frame.path, frame.type_name, inputs + keywords, outputs)

    def _new_call(self, kind: Kind, phase: Phase, path: str, module_type: str, name: str) -> Call:
        call = Call(kind, phase, path, module_type, name)
        call.occurrence = self._next_occurrence(call)
        call.autocast = self._autocast.dtype
        for probe in self._probes:
            probe.on_call(call, None, (), {})
        if not self._observes_operators:
            self._storages.forget_values()  # writes are not seen, so nothing that was seen can be relied on
        return call

    # -- gradients and losses -----------------------------------------------------------------

    def _on_gradient(self, pending: Pending, name: str, gradient: Tensor) -> None:
        if not self._recording or self._modules.watch.busy:
            return
        now = (self._clock.now() - self._step_start) / 1000
        with self._own_work():
            call = pending.call
            if call is None or name not in pending.missing or id(call) not in self._unfinished:
                call = self._new_call(
                    "module", "backward", pending.module_path, pending.module_type, pending.module_type
                )
                call.start_us = now
                pending.call, pending.missing = call, set(pending.names)
                self._unfinished[id(call)] = call
            call.duration_us = now - call.start_us
            side = call.inputs if name.startswith("grad_output") else call.outputs
            side += (name, self._see(gradient))
            pending.missing.discard(name)
            if not pending.missing:
                self._calls.append(self._unfinished.pop(id(call)))

    def _on_loss(self, loss: Tensor) -> None:
        if not self._recording:
            return
        with self._own_work():
            call = self._new_call("loss", "forward", "", "", "loss")
            call.start_us = (self._clock.now() - self._step_start) / 1000
            seen = self._see(loss.detach())
            if seen.statistics is None:
                self._loss_stats.on_tensor(seen, loss)
            call.outputs = ["output.0", seen]
            self._calls.append(call)

    def _enter_backward(self) -> None:
        self._attribution.enter_backward()

    def _leave_backward(self) -> None:
        self._attribution.leave_backward()


def named_tensors(prefix: str, value: Any, depth: int = 4) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, tensor) of the tensors in nested tuples, lists and dictionaries: `input.2.1`, `output.logits`."""
    if isinstance(value, Tensor):
        yield prefix, value
    elif depth and isinstance(value, (tuple, list)):
        for position, item in enumerate(value):
            yield from named_tensors(f"{prefix}.{position}", item, depth - 1)
    elif depth and isinstance(value, dict):
        for key, item in value.items():
            yield from named_tensors(f"{prefix}.{key}", item, depth - 1)


def _is_wrapper(tensor: Tensor) -> bool:
    """Tell whether operators on this tensor run code of its class (DTensor: communication)."""
    kind = type(tensor)
    return kind is not Tensor and kind is not nn.Parameter and kind.__torch_dispatch__ is not Tensor.__torch_dispatch__
