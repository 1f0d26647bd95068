"""Names of Keras' layers: dotted paths from the model, by the attributes of a program's own classes."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from jumar.capture.frameworks.tensorflow.observe.layouts import raw_variable

PLAIN = (bool, int, float, str)


class LayerNames:
    """Paths of the layers of a run.

    The first model that is called is the model: its own path is empty. Another outermost layer is called after its
    name, another model after its class, the second of a class `Generator#2`.
    """

    def __init__(self, layer_class: Any, model_class: Any) -> None:
        self._layer, self._model = layer_class, model_class
        self._paths: dict[int, tuple[Any, str | None]] = {}
        self._owners: dict[int, tuple[str, str, str]] = {}
        self._roots: list[tuple[Any, str]] = []
        self._num_of_class: Counter[str] = Counter()
        self.layers: dict[str, dict[str, Any]] = {}
        """By path of each of Keras' own layers that was met: its class as `type`, and its settings."""

    def path(self, layer: Any, outermost: bool, parent: str) -> str | None:
        """Return the path of a layer, None for a part of another one; `parent` is that of the layer around it."""
        known = self._paths.get(id(layer))
        if known is None or known[0]() is not layer:
            self._walk_again()  # built since the model was met
            known = self._paths.get(id(layer))
        if known is None or known[0]() is not layer:
            path = self._root_path(layer) if outermost else ".".join(filter(None, (parent, layer.name)))
            if outermost:
                self._roots.append((weakref.ref(layer), path))
            self._adopt(layer, path, set())
            known = self._paths[id(layer)]
        return known[1]

    def of_variable(self, variable: Any) -> tuple[str, str, str]:
        """Return path and class of the layer that owns a variable, and its name there (`kernel`)."""
        found = self._owners.get(id(raw_variable(variable)))
        if found is None:
            self._walk_again()
            found = self._owners.get(id(raw_variable(variable)))
        return found if found is not None else of_name(str(getattr(variable, "path", "") or variable.name))

    def _walk_again(self) -> None:
        for root, path in self._roots:
            layer = root()
            if layer is not None:
                self._adopt(layer, path, set())

    def _root_path(self, layer: Any) -> str:
        if isinstance(layer, self._model):
            if not any(not path for _, path in self._roots):
                return ""
            kind = type(layer).__name__
            self._num_of_class[kind] += 1
            return kind if self._num_of_class[kind] == 1 else f"{kind}#{self._num_of_class[kind]}"
        return str(layer.name)

    def _adopt(self, layer: Any, path: str, done: set[int]) -> None:
        if id(layer) in done:
            return
        done.add(id(layer))
        known = self._paths.get(id(layer))
        if known is None or known[0]() is not layer:
            self._paths[id(layer)] = weakref.ref(layer), path
        path = self._paths[id(layer)][1] or path
        if _is_own(layer):
            self.layers[path] = dict({"type": type(layer).__name__}, **settings_of(layer))
        self._own(layer, path, type(layer).__name__)
        for name, child in self._children(layer):
            if _is_inner(child):
                self._paths[id(child)] = weakref.ref(child), None
                self._own(child, path, type(layer).__name__)
                continue
            self._adopt(child, ".".join(filter(None, (path, name))), done)

    def _own(self, layer: Any, path: str, kind: str) -> None:
        by_attribute = {id(raw_variable(value)): name for name, value in vars(layer).items() if _is_variable(value)}
        for variable in own_variables(layer):
            one = raw_variable(variable)
            name = by_attribute.get(id(one), "").lstrip("_") or of_name(str(variable.name))[2]
            self._owners.setdefault(id(one), (path, kind, name))

    def _children(self, layer: Any) -> Iterator[tuple[str, Any]]:
        """Yield the layers directly below one, by attribute in a program's own classes, else by their names."""
        seen = set()
        if not _is_own(layer):
            for name, value in list(vars(layer).items()):
                if not name.startswith("_"):
                    for path, child in self._layers_in(name, value, 3):
                        if id(child) not in seen:
                            seen.add(id(child))
                            yield path, child
        for child in direct_layers(layer):
            if id(child) not in seen and isinstance(child, self._layer):
                seen.add(id(child))
                yield str(child.name), child

    def _layers_in(self, name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
        if isinstance(value, self._layer):
            if not _is_metric(value):
                yield name, value
        elif depth and isinstance(value, (list, tuple)):
            for number, item in enumerate(value):
                yield from self._layers_in(f"{name}.{number}", item, depth - 1)
        elif depth and isinstance(value, dict):
            for key, item in value.items():
                yield from self._layers_in(f"{name}.{key}", item, depth - 1)


def direct_layers(layer: Any) -> list[Any]:
    """Return the layers that Keras tracks directly below one."""
    flatten = getattr(layer, "_flatten_layers", None)
    if flatten is None:
        return []
    return [child for child in flatten(recursive=False, include_self=False) if not _is_metric(child)]


def own_variables(layer: Any) -> list[Any]:
    """Return the variables that a layer holds itself."""
    found = []
    for name in ("_trainable_weights", "_non_trainable_weights", "_trainable_variables", "_non_trainable_variables"):
        found += list(getattr(layer, name, None) or ())
    return found


def of_name(name: str) -> tuple[str, str, str]:
    """Return path, class (unknown) and name of a variable by its name alone: `conv1/kernel:0`."""
    path, _, last = name.partition(":")[0].replace("/", ".").rpartition(".")
    return path, "", last


def settings_of(layer: Any) -> dict[str, Any]:
    """Return the settings of one of Keras' own layers: the plain values of its configuration."""
    try:
        config = dict(layer.get_config())
    except Exception:  # noqa: BLE001 - some layers have no configuration
        return {}
    config.pop("layers", None)
    found = plain_values({name: value for name, value in config.items() if name not in _NOT_SETTINGS})
    activation = config.get("activation")
    if isinstance(activation, dict):  # an activation of the program's own
        found["activation"] = str(activation.get("config", activation.get("class_name", "")))
    return found


def plain_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that are numbers, texts, truth values or lists of these; NumPy's numbers as Python's."""
    found: dict[str, Any] = {}
    for name, given in values.items():
        value = plain_number(given)
        if isinstance(value, PLAIN):
            found[name] = value
        elif isinstance(value, (tuple, list)) and all(isinstance(item, PLAIN) for item in value):
            found[name] = list(value)
    return found


def plain_number(value: Any) -> Any:
    """Return NumPy's number as the one that was meant: 0.1, not float32's 0.10000000149; anything else as it is."""
    if isinstance(value, (np.generic, np.ndarray)) and np.size(value) == 1:
        array = np.asarray(value).reshape(-1)
        return float(str(array[0])) if array.dtype.kind == "f" else array[0].item()
    return value


_NOT_SETTINGS = frozenset({"name", "trainable", "dtype", "batch_input_shape", "build_config", "autocast"})


def _is_own(layer: Any) -> bool:
    """Tell whether a class is Keras' own."""
    return type(layer).__module__.startswith(("keras", "tf_keras", "tensorflow."))


def _is_inner(layer: Any) -> bool:
    """Tell whether a layer is a part of another one of Keras': the cell of an RNN."""
    return _is_own(layer) and type(layer).__name__.endswith("Cell")


def _is_metric(layer: Any) -> bool:
    return hasattr(layer, "update_state") and hasattr(layer, "result")


def _is_variable(value: Any) -> bool:
    return hasattr(value, "assign") and hasattr(value, "shape")
