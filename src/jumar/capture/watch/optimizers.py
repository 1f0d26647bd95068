"""Rows of optimizers and of the parameters they train: what went into each update and what came out of it.

A gradient is looked at when the optimizer reads it: before its `step`, and where it was given a closure
(LBFGS) after it, because the closure computes the gradients. That also holds for gradients that are freed
afterwards, and for an update that `GradScaler` left out. Values are looked at when the step ends.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from jumar.amp.cast.weights import weight_of
from jumar.capture.notes.calls import Call, Seen
from jumar.capture.watch.naming import ModuleNames
from jumar.capture.watch.notebook import Notebook

Tensor = torch.Tensor

_NOT_ARGUMENTS = {"params", "param_names"}


class _Trained:
    """One parameter that an optimizer updated in the step, or that it would have updated without `GradScaler`."""

    __slots__ = ("gradient", "known_as", "occurrences", "reference", "source", "updated_by")

    def __init__(self, parameter: Tensor, known_as: str) -> None:
        self.reference = weakref.ref(parameter)
        self.known_as = known_as
        self.source = ""
        self.updated_by: tuple[str, int] | None = None
        """Name and group of the optimizer; None while no update was made."""
        self.occurrences: list[int] = []
        """Its calls in the step."""
        self.gradient: Seen | None = None


class OptimizerRows:
    """Adds the rows of kind `optimizer` and `parameter` to the notebook, and what is known of loss scaling.

    `pause` is called before an optimizer's own operators run, when it was given no closure, and `resume` after.
    """

    def __init__(
        self, notebook: Notebook, names: ModuleNames, pause: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        self._notebook = notebook
        self._names = names
        self._pause, self._resume = pause, resume
        self._under_way: list[Call] = []
        self._trained: dict[int, _Trained] = {}

    @property
    def source(self) -> str:
        """The line that called the optimizer which works now; empty when none does."""
        return self._under_way[-1].source if self._under_way else ""

    def before_step(self, optimizer: Any, *, has_closure: bool) -> None:
        """Note an optimizer that is about to update its parameters."""
        notebook = self._notebook
        if not notebook.takes_notes:
            return
        with notebook.own_work():
            name = type(optimizer).__name__
            call = notebook.new_call("optimizer", "optimizer", "", "", name)
            call.arguments = _hyperparameters(optimizer)
            call.start_us = notebook.now_us()
            self._under_way.append(call)
            self._note(optimizer, call, reads_gradients=not has_closure)
        if not has_closure:
            self._pause()

    def after_step(self, optimizer: Any, *, has_closure: bool) -> None:
        """Note that it has."""
        self._resume()
        notebook = self._notebook
        if not self._under_way or not notebook.takes_notes:
            return
        with notebook.own_work():
            call = self._under_way.pop()
            call.duration_us = notebook.now_us() - call.start_us
            notebook.calls.append(call)
            if has_closure:
                self._note(optimizer, call, reads_gradients=True)
            for parameter, _, _ in _parameters(optimizer):  # its operators may not have been observed
                notebook.storages.note_write(parameter)

    def after_scaled_step(self, scaler: Any, optimizer: Any, *, was_called: bool) -> None:
        """Note the scale of the loss, and the parameters whose update was left out."""
        notebook = self._notebook
        if not notebook.takes_notes or not scaler.is_enabled():
            return
        with notebook.own_work():
            if not was_called:
                self._note(optimizer, None, reads_gradients=True)
            # NOTE: an optimizer that unscales by itself is always called, and skips the update on its device
            found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
            notebook.info = replace(
                notebook.info,
                loss_scale=float(scaler.get_scale()),
                skipped=bool(notebook.info.skipped) or any(bool(number.item()) for number in found),
            )

    def end_step(self) -> None:
        """Add the rows of parameters; to be called within the notebook's own work."""
        if not self._notebook.sees_writes:
            self._notebook.storages.forget_values()
        for trained in self._trained.values():
            parameter = trained.reference()
            if parameter is not None:
                self._add_row(trained, parameter)

    def begin_step(self) -> None:
        """Forget the last step."""
        self._under_way.clear()
        self._trained.clear()

    def _note(self, optimizer: Any, call: Call | None, *, reads_gradients: bool) -> None:
        """Note the parameters and gradients of an optimizer, each once a step, with the last gradient read and the
        last `call` of an optimizer that updates it; None for an update that was left out."""
        if reads_gradients and not self._notebook.sees_writes:
            self._notebook.storages.forget_values()
        for parameter, known_as, group in _parameters(optimizer):
            trained = self._trained.get(id(parameter))
            if trained is None or trained.reference() is not parameter:
                trained = _Trained(parameter, known_as)
                self._trained[id(parameter)] = trained
            if call is not None:
                trained.source = call.source
                if trained.updated_by != (call.name, group):
                    trained.updated_by, trained.occurrences = (call.name, group), []
                if call.occurrence not in trained.occurrences:
                    trained.occurrences.append(call.occurrence)
            if reads_gradients and parameter.grad is not None:
                trained.gradient = self._notebook.see(parameter.grad)

    def _owner(self, parameter: Tensor, known_as: str) -> tuple[str, str, str]:
        weight = weight_of(parameter)  # a float32 master has the place of the model's weight
        parameter = parameter if weight is None else weight
        path, type_name = self._names.of_parameter(parameter)
        name = self._names.parameter_name(parameter)
        if not name:
            path, _, name = known_as.rpartition(".")
        return path, type_name, name or "parameter"

    def _add_row(self, trained: _Trained, parameter: Tensor) -> None:
        notebook = self._notebook
        # NOTE: by now the module of a parameter is known also where an optimizer's closure is all that calls it
        call = notebook.begin_row("parameter", "optimizer", *self._owner(parameter, trained.known_as))
        call.source = trained.source
        if trained.updated_by is not None:
            name, group = trained.updated_by
            call.arguments = ["optimizer", name, "occurrences", trained.occurrences, "group", group]
        call.start_us = notebook.now_us()
        if trained.gradient is not None:
            call.inputs = ["input.grad", trained.gradient]
        value = notebook.see(parameter)
        call.outputs = ["output.0", value]
        notebook.storages.carry(parameter, value)
        notebook.keep(call, call.outputs, [parameter])
        notebook.calls.append(call)


def _parameters(optimizer: Any) -> Iterator[tuple[Tensor, str, int]]:
    """Yield the parameters of an optimizer, the names it knows them by (empty without) and their groups' numbers."""
    for number, group in enumerate(optimizer.param_groups):
        names = group.get("param_names") or ()
        for position, parameter in enumerate(group["params"]):
            yield parameter, str(names[position]) if position < len(names) else "", number


def _hyperparameters(optimizer: Any) -> list[Any]:
    """Return names and values in turn; a value is a list with one item a parameter group."""
    groups = optimizer.param_groups
    names = dict.fromkeys(name for group in groups for name in group if name not in _NOT_ARGUMENTS)
    return [item for name in names for item in (name, [_value(group, name) for group in groups])]


def _value(group: Mapping[str, Any], name: str) -> Any:
    value = group.get(name)
    # NOTE: reading a tensor of a device would wait for it
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 and value.device.type == "cpu" else value
