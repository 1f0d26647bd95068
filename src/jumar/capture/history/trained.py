"""What each optimizer trains, and with which settings: `Trained`."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from jumar.capture.history.batch import Batch
from jumar.capture.watch.naming import ModuleNames

Tensor = torch.Tensor
_NOT_SETTINGS = {"params", "param_names"}


class Trained:
    """One optimizer. `label` is its class, with a number for the second of a class."""

    def __init__(self, optimizer: Any, label: str, names: ModuleNames) -> None:
        self.reference = weakref.ref(optimizer)
        self.label = label
        self.num_calls = 0
        self._names = names
        self._named: list[tuple[Tensor, str]] = []

    def parameters(self) -> list[tuple[Tensor, str]]:
        """Return the parameters, each with a name of its own."""
        optimizer = self.reference()
        if optimizer is None:
            return []
        tensors = [tensor for group in optimizer.param_groups for tensor in group["params"]]
        same = len(tensors) == len(self._named) and all(
            known is tensor for (known, _), tensor in zip(self._named, tensors, strict=True)
        )
        if not same:
            self._named = list(self._name(optimizer))
        return self._named

    def add_gradients(self, batch: Batch) -> None:
        """Note the gradients as they are now."""
        for parameter, name in self.parameters():
            if parameter.grad is not None:
                batch.add("gradient", self.label, name, "", parameter.grad)

    def add_values(self, batch: Batch) -> None:
        """Note the state of the optimizer and the parameters, as the step has left them.

        Of a state of one element (a count of steps) that of the first parameter stands for all.
        """
        optimizer = self.reference()
        if optimizer is None:
            return
        counted: set[str] = set()
        for parameter, name in self.parameters():
            for slot, value in _state_of(optimizer, parameter):
                if value.numel() == 1 and parameter.numel() > 1:
                    if slot in counted:
                        continue
                    counted.add(slot)
                batch.add("state", self.label, name, slot, value)
            batch.add("parameter", "", name, "", parameter)

    def settings(self) -> dict[str, list[Any]]:
        """Return the settings of the parameter groups; of a tensor on a device, which would have to be waited for, its
        type."""
        optimizer = self.reference()
        groups = optimizer.param_groups if optimizer is not None else []
        names = dict.fromkeys(name for group in groups for name in group if name not in _NOT_SETTINGS)
        return {name: [setting(group.get(name)) for group in groups] for name in names}

    def _name(self, optimizer: Any) -> Iterator[tuple[Tensor, str]]:
        taken: set[str] = set()
        for number, group in enumerate(optimizer.param_groups):
            known_as = group.get("param_names") or ()
            for position, parameter in enumerate(group["params"]):
                path, _ = self._names.of_parameter(parameter)
                name = ".".join(part for part in (path, self._names.parameter_name(parameter)) if part)
                name = name or (str(known_as[position]) if position < len(known_as) else "")
                if not name or name in taken:
                    name = f"{self.label}.{number}.{position}"
                taken.add(name)
                yield parameter, name


def setting(value: Any) -> Any:
    """Return a setting as a value of JSON."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.Tensor):
        small = value.device.type == "cpu" and value.numel() == 1
        return value.item() if small else f"tensor on {value.device.type}"
    if isinstance(value, list | tuple) and len(value) <= 16:
        return [setting(item) for item in value]
    return type(value).__name__


def _state_of(optimizer: Any, parameter: Tensor) -> Iterator[tuple[str, Tensor]]:
    state = optimizer.state.get(parameter)
    if not isinstance(state, Mapping):
        return
    for slot, value in state.items():
        if isinstance(value, torch.Tensor) and isinstance(slot, str):
            yield slot, value
