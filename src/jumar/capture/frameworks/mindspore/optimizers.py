"""What MindSpore's optimizers read and write, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jumar.capture.frameworks.mindspore.names import CellNames
from jumar.capture.frameworks.notebook import Draft, Notebook


def parameters_of(optimizer: Any) -> Sequence[Any]:
    """Return the parameters that an optimizer of `mindspore.nn` or `mindspore.experimental.optim` trains."""
    return tuple(getattr(optimizer, "parameters", None) or ())


@dataclass(slots=True)
class _Trained:
    parameter: Any
    gradient: Any = None
    updated_by: str = ""
    occurrences: list[int] = field(default_factory=list)
    group: int = 0


class OptimizerRows:
    """Makes a row of each call of an optimizer, and one of each parameter at the end of a step."""

    def __init__(self, notebook: Notebook, names: CellNames) -> None:
        self._notebook, self._names = notebook, names
        self._trained: dict[int, _Trained] = {}
        self.settings: dict[str, dict[str, list[Any]]] = {}
        """Of the step under way, by optimizer: its settings, one item a parameter group."""
        self.calls: dict[str, int] = {}

    def begin_step(self) -> None:
        """Forget the step before."""
        self._trained.clear()
        self.settings, self.calls = {}, {}

    def before(self, optimizer: Any, gradients: Any) -> Draft | None:
        """Note an optimizer that is about to update its parameters; return its row."""
        name = type(optimizer).__name__
        self.calls[name] = self.calls.get(name, 0) + 1
        settings, groups = hyperparameters(optimizer)
        self.settings[name] = settings
        if not self._notebook.is_open:
            return None
        draft = self._notebook.draft("optimizer", "optimizer", "", "", name)
        draft.arguments = settings
        parameters = parameters_of(optimizer)
        self.note_gradients(parameters, gradients, draft)
        for parameter, group in zip(parameters, groups, strict=False):
            self._trained[id(parameter)].group = group
        return draft

    def note_gradients(self, parameters: Sequence[Any], gradients: Any, draft: Draft | None = None) -> None:
        """Note the gradients of parameters, and the call that reads them; None where the update was left out."""
        values = gradients if isinstance(gradients, (tuple, list)) else (gradients,)
        for place, parameter in enumerate(parameters):
            trained = self._trained.setdefault(id(parameter), _Trained(parameter))
            if place < len(values) and hasattr(values[place], "asnumpy"):
                trained.gradient = self._notebook.describer.row("input.grad", values[place])
            if draft is not None:
                trained.updated_by = draft.name
                trained.occurrences.append(draft.occurrence)

    def end_step(self) -> None:
        """Add the rows of parameters."""
        for trained in self._trained.values():
            path, kind, name = self._names.of_parameter(trained.parameter)
            draft = self._notebook.draft("parameter", "optimizer", path, kind, name)
            if trained.updated_by:
                draft.arguments = {
                    "optimizer": trained.updated_by,
                    "occurrences": trained.occurrences,
                    "group": trained.group,
                }
            if trained.gradient is not None:
                draft.inputs.append(trained.gradient)
            self._notebook.see(draft, [("output.0", trained.parameter)], outputs=True)
            self._notebook.finish(draft)


def hyperparameters(optimizer: Any) -> tuple[dict[str, list[Any]], list[int]]:
    """Return the settings of an optimizer by MindSpore's names, a list with one item a parameter group, and the group
    of each parameter.

    An optimizer of `mindspore.nn` has no groups while it runs: a group here is what shares learning rate and weight
    decay. With one weight decay for all, MindSpore leaves out parameters whose names have `beta` or `gamma` in them.
    """
    parameters = parameters_of(optimizer)
    groups: Any = getattr(optimizer, "param_groups", None)
    if groups is not None:
        names = dict.fromkeys(name for group in groups for name in group if name not in _NOT_SETTINGS)
        numbers = {id(one): number for number, group in enumerate(groups) for one in group["params"]}
        settings = {name: [_number(group.get(name)) for group in groups] for name in names}
        return settings, [numbers.get(id(one), 0) for one in parameters]
    rates = _of_each(_rate(optimizer), len(parameters))
    decays = _of_each(getattr(optimizer, "weight_decay", 0.0), len(parameters))
    flags = tuple(getattr(optimizer, "decay_flags", None) or ()) or (True,) * len(parameters)
    pairs = [(rate, decay if flag else 0.0) for rate, decay, flag in zip(rates, decays, flags, strict=False)]
    kinds = list(dict.fromkeys(pairs)) or [(None, None)]
    common = {name: [value] * len(kinds) for name, value in _of_attributes(optimizer)}
    settings = common | {"learning_rate": [rate for rate, _ in kinds], "weight_decay": [decay for _, decay in kinds]}
    return settings, [kinds.index(pair) for pair in pairs]


def _of_attributes(optimizer: Any) -> Iterator[tuple[str, Any]]:
    # NOTE: what the constructor was given comes first: attributes are tensors, rounded to float32
    given = dict(getattr(optimizer, "init_args", None) or {})
    for name in _SETTINGS:
        value = given.get(name, getattr(optimizer, name, None))
        if value is not None:
            yield name, _number(value)


def _rate(optimizer: Any) -> Any:
    """Return the learning rate of this step, one or one a parameter. A schedule is asked for the optimizer's step."""
    rate = getattr(optimizer, "learning_rate", None)
    if not getattr(optimizer, "dynamic_lr", False):
        return rate
    step = optimizer.global_step
    if not getattr(optimizer, "is_group_lr", False):
        return rate(step).reshape(()) if callable(rate) else rate
    rates: Any = rate
    return tuple(one(step).reshape(()) if callable(one) and type(one).__name__ != "Parameter" else one for one in rates)


def _of_each(value: Any, number: int) -> list[Any]:
    """Return a value of each parameter, of one for all or one for each."""
    if isinstance(value, (tuple, list)):
        return [_number(item) for item in value]
    return [_number(value)] * number


def _number(value: Any) -> Any:
    """Return a tensor of one element as its number."""
    if hasattr(value, "asnumpy"):
        array = value.asnumpy()
        if array.size != 1:
            return array.tolist()
        # the number that was meant: 0.1, not the 0.10000000149011612 that float32 has for it
        return float(str(array.reshape(-1)[0])) if array.dtype.kind == "f" else array.item()
    if isinstance(value, (tuple, list)):
        return [_number(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else type(value).__name__


_NOT_SETTINGS = frozenset({"params", "order_params"})
_SETTINGS = (
    "momentum", "dampening", "nesterov", "use_nesterov", "beta1", "beta2", "betas", "eps", "epsilon", "use_amsgrad",
    "amsgrad", "decay", "centered", "rho", "alpha", "loss_scale", "lr_decay",
)  # fmt: skip
"""Attributes of `mindspore.nn`'s optimizers that set how they update."""
