"""What Keras' and TensorFlow's optimizers read and write, as rows: `OptimizerRows`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jumar.capture.frameworks.tensorflow.observe.layouts import Layouts, raw_variable
from jumar.capture.frameworks.tensorflow.observe.names import PLAIN, LayerNames, plain_number

_NOT_SETTINGS = frozenset({
    "name", "jit_compile", "is_legacy_optimizer", "weight_decay", "learning_rate", "use_ema", "ema_momentum",
    "ema_overwrite_frequency", "loss_scale_factor", "gradient_accumulation_steps",
})  # fmt: skip


def optimizer_methods() -> Iterator[tuple[Any, str]]:
    """Yield each class of optimizers with the name of the method that applies gradients."""
    import tensorflow as tf

    new = tf.keras.optimizers.Optimizer
    yield new, "apply" if hasattr(new, "apply") else "apply_gradients"  # Keras 3: both call `apply`
    legacy = getattr(tf.keras.optimizers, "legacy", None)
    if legacy is not None and hasattr(legacy, "Optimizer") and not hasattr(new, "apply"):
        yield legacy.Optimizer, "apply_gradients"
    yield tf.compat.v1.train.Optimizer, "apply_gradients"


class Trained:
    """A parameter of the step under way."""

    def __init__(self, variable: Any) -> None:
        self.variable = variable
        self.gradient: Any = None
        self.updated_by = ""
        self.occurrences: list[int] = []
        self.group = 0


class OptimizerRows:
    """Makes a row of each call of an optimizer, and one of each parameter at the end of a step."""

    def __init__(self, notebook: Any, names: LayerNames, layouts: Layouts) -> None:
        self._notebook, self._names, self._layouts = notebook, names, layouts
        self._trained: dict[int, Trained] = {}
        self.settings: dict[str, dict[str, list[Any]]] = {}
        """Of the step under way, by optimizer: its settings, one item a parameter group."""
        self.calls: dict[str, int] = {}

    def begin_step(self) -> None:
        """Forget the step before."""
        self._trained, self.settings, self.calls = {}, {}, {}

    def before(self, optimizer: Any, pairs: Sequence[tuple[Any, Any]]) -> Any:
        """Note an optimizer that is about to update variables (gradient, variable); return its row."""
        name = type(optimizer).__name__
        self.calls[name] = self.calls.get(name, 0) + 1
        settings, groups = hyperparameters(optimizer, [variable for _, variable in pairs])
        self.settings[name] = settings
        if not self._notebook.is_open:
            return None
        draft = self._notebook.draft("optimizer", "optimizer", "", "", name)
        draft.arguments = settings
        self.note_gradients(pairs, draft)
        for (_, variable), group in zip(pairs, groups):
            self._trained[id(raw_variable(variable))].group = group
        return draft

    def note_gradients(self, pairs: Sequence[tuple[Any, Any]], draft: Any = None) -> None:
        """Note the gradients of variables, and the call that reads them; None where the update was left out."""
        import tensorflow as tf

        for gradient, variable in pairs:
            one = self._trained.setdefault(id(raw_variable(variable)), Trained(variable))
            if gradient is not None:
                whole = tf.convert_to_tensor(gradient)
                self._layouts.tag(whole, self._layouts.of(variable))
                one.gradient = whole
            if draft is not None:
                one.updated_by = draft.name
                one.occurrences.append(draft.occurrence)

    def end_step(self) -> None:
        """Add the rows of parameters."""
        for trained in self._trained.values():
            path, kind, name = self._names.of_variable(trained.variable)
            draft = self._notebook.draft("parameter", "optimizer", path, kind, name)
            if trained.updated_by:
                draft.arguments = {
                    "optimizer": trained.updated_by,
                    "occurrences": trained.occurrences,
                    "group": trained.group,
                }
            if trained.gradient is not None:
                self._notebook.see(draft, [("input.grad", trained.gradient)])
            self._notebook.see(draft, [("output.0", trained.variable)], outputs=True)
            self._notebook.finish(draft)


def hyperparameters(optimizer: Any, variables: Sequence[Any]) -> tuple[dict[str, list[Any]], list[int]]:
    """Return the settings of an optimizer by its own names, a list with one item a group, and each variable's group.

    A group is what shares a weight decay: Keras leaves variables out by name.
    """
    decay = number_of(getattr(optimizer, "weight_decay", None))
    decays = [decay if decay and _decays(optimizer, one) else None for one in variables]
    kinds = sorted(set(decays), key=lambda one: (one is None, one)) or [None]
    settings: dict[str, list[Any]] = {
        name: [value] * len(kinds) for name, value in _configuration(optimizer) if value is not None
    }
    settings["learning_rate"] = [learning_rate(optimizer)] * len(kinds)
    if any(kinds):
        settings["weight_decay"] = [one or 0.0 for one in kinds]
    return settings, [kinds.index(one) for one in decays]


def _configuration(optimizer: Any) -> Iterator[tuple[str, Any]]:
    try:
        config = dict(optimizer.get_config())
    except (AttributeError, NotImplementedError):  # TensorFlow 1: attributes `_beta1`, or tensors of them
        config = {name.lstrip("_"): getattr(optimizer, name) for name in _V1 if hasattr(optimizer, name)}
    for name, value in config.items():
        if name not in _NOT_SETTINGS:
            number = number_of(value)
            if number is None or isinstance(number, PLAIN):
                yield name, number


_V1 = ("_momentum", "_use_nesterov", "_beta1", "_beta2", "_epsilon", "_decay", "_rho", "_initial_accumulator_value")


def learning_rate(optimizer: Any) -> float | None:
    """Return the learning rate of this step."""
    compute = getattr(optimizer, "_compute_current_learning_rate", None)
    if compute is not None:  # Keras 2: a schedule is asked before the update
        compute()
    decayed = getattr(optimizer, "_decayed_lr", None)
    if decayed is not None:
        import tensorflow as tf

        found = number_of(decayed(tf.float32))
    else:
        for name in ("learning_rate", "_learning_rate", "_lr"):
            found = number_of(getattr(optimizer, name, None))
            if found is not None:
                break
    return found if isinstance(found, float) else None


def number_of(value: Any) -> Any:
    """Return a tensor or variable of one element as the number that was meant: 0.1, not float32's 0.10000000149."""
    value = plain_number(value)
    if value is None or isinstance(value, PLAIN):
        return value
    read = getattr(value, "numpy", None)
    if read is None:
        return None
    try:
        array = np.asarray(read())
    except Exception:  # noqa: BLE001 - a tensor of a graph has no value yet
        return None
    return plain_number(array) if array.size == 1 else None


def _decays(optimizer: Any, variable: Any) -> bool:
    asks = getattr(optimizer, "_use_weight_decay", None)
    return bool(asks(variable)) if asks is not None else True
