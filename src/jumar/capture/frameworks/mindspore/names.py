"""Names of cells: dotted paths from the model, what is wrapped around it for training left out."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

_WRAPPING = ("mindspore.nn.wrap.", "mindspore.train.amp", "mindspore.nn.optim")
"""Modules of MindSpore whose cells train a model and are no part of it."""


_REDUCER = "grad_reducer"
"""Attribute of a training cell under which gradients pass, as they are where there is one rank."""


class CellNames:
    """Paths of the cells of a run.

    The first cell that has parameters and is no wrapper is the model: its own path is empty, those below it are
    those of `cells_and_names()`. A parameter is named after its cell when it is made, before anything is wrapped
    around the model: where the paths of an outermost cell are longer than these names, the difference is the wrapper.
    Any other outermost cell (a loss, a discriminator) is called after its class, the second of a class `Generator#2`.
    """

    def __init__(self) -> None:
        self._paths: dict[int, tuple[weakref.ref[Any], str | None]] = {}
        self._owners: dict[int, tuple[str, str, str]] = {}
        self._num_of_class: Counter[str] = Counter()
        self._has_model = False
        self.layers: dict[str, dict[str, Any]] = {}
        """By path of each of MindSpore's own cells that was met: its class as `type`, and its settings."""

    def path(self, cell: Any, *, outermost: bool, parent: str) -> str | None:
        """Return the path of a cell, None for a wrapper; `parent` is the path of the cell that calls it."""
        known = self._paths.get(id(cell))
        if known is None or known[0]() is not cell:
            if outermost:
                self._adopt_outermost(cell)
            else:
                self._adopt(cell, ".".join(filter(None, (parent, type(cell).__name__))))
            known = self._paths[id(cell)]
        return known[1]

    def of_parameter(self, parameter: Any) -> tuple[str, str, str]:
        """Return path and class of the cell that owns a parameter, and its name there (`gamma`)."""
        owner = self._owners.get(id(parameter))
        if owner is not None:
            return owner
        path, _, name = str(parameter.name).rpartition(".")
        return path, "", name

    def _adopt_outermost(self, cell: Any) -> None:
        cells = list(cell.cells_and_names())
        roots = _roots(cell, cells)
        for path, below in cells:
            within = next((root for root in roots if path == root or path.startswith(f"{root}.") or not root), None)
            beside = within is None and not is_wrapper(below) and path.rpartition(".")[2] != _REDUCER
            if beside and not any(root.startswith(f"{path}.") or not path for root in roots):
                within = path  # beside the model: a loss
                roots.append(path)
            if within is None:
                self._paths[id(below)] = weakref.ref(below), None
            elif path == within:
                self._adopt(below, self._root_path(below))

    def _root_path(self, cell: Any) -> str:
        if not self._has_model and next(iter(cell.get_parameters()), None) is not None:
            self._has_model = True
            return ""
        kind = type(cell).__name__
        self._num_of_class[kind] += 1
        return kind if self._num_of_class[kind] == 1 else f"{kind}#{self._num_of_class[kind]}"

    def _adopt(self, root: Any, path: str) -> None:
        for below, cell in root.cells_and_names():
            if id(cell) in self._paths and self._paths[id(cell)][0]() is cell and cell is not root:
                continue
            full = ".".join(filter(None, (path, below)))
            if _is_inner(cell):
                self._paths[id(cell)] = weakref.ref(cell), None
                full = full.rpartition(".")[0]
                self._own(cell, full)
                continue
            self._paths[id(cell)] = weakref.ref(cell), full
            if type(cell).__module__.startswith("mindspore."):
                self.layers[full] = {"type": type(cell).__name__, **_settings(cell)}
            self._own(cell, full)

    def _own(self, cell: Any, path: str) -> None:
        for name, parameter in cell._params.items():
            if parameter is not None:
                self._owners.setdefault(id(parameter), (path, type(cell).__name__, name))


def _is_inner(cell: Any) -> bool:
    """Tell whether a cell is a part of another one of MindSpore's, as `_DynamicLSTMCPUGPU` is of `LSTM`."""
    return type(cell).__name__.startswith("_") and type(cell).__module__.startswith("mindspore.")


def is_wrapper(cell: Any) -> bool:
    """Tell whether a cell's class is one of MindSpore's that train or cast a model."""
    return any(kind.__module__.startswith(_WRAPPING) for kind in type(cell).__mro__)


def _roots(cell: Any, cells: list[tuple[str, Any]]) -> list[str]:
    """Return the paths below an outermost cell at which models begin, the one with most parameters first."""
    found: Counter[str] = Counter()
    for path, below in cells:
        for name, parameter in below._params.items():
            full = ".".join(filter(None, (path, name)))
            known = str(parameter.name)
            if full == known:
                found[""] += 1
            elif full.endswith(f".{known}"):
                found[full[: -len(known) - 1]] += 1
    roots = [path for path, _ in found.most_common()]
    if not roots or ("" in roots and not is_wrapper(cell)):
        return list(_unwrapped(cell)) if is_wrapper(cell) else [""]
    return [path for path in roots if path]


def _unwrapped(cell: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of the first cells below a wrapper that are none."""
    for name, child in cell.name_cells().items():
        below = ".".join(filter(None, (path, name)))
        if is_wrapper(child):
            yield from _unwrapped(child, below)
        else:
            yield below


_PLAIN = (bool, int, float, str)


def _settings(cell: Any) -> dict[str, Any]:
    """Return the settings of one of MindSpore's own cells: its attributes of plain values."""
    given: dict[str, Any] = {}
    for primitive in cell._primitives.values():
        given |= getattr(primitive, "init_attrs", None) or {}
    given |= {name: value for name, value in vars(cell).items() if not name.startswith("_")}
    return plain_values({name: value for name, value in given.items() if name not in _NOT_SETTINGS})


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are numbers, texts, truth values or lists of these."""
    return {name: plain for name, value in values.items() if (plain := _plain(value)) is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, (tuple, list)) and all(isinstance(item, _PLAIN) for item in value):
        return list(value)
    return None


_NOT_SETTINGS = frozenset({
    "training", "requires_grad", "is_top_cell", "arguments_key", "cell_type", "grad_ops_label", "has_bprop",
    "skip_auto_parallel_compile", "enable_tuple_broaden", "jit_config_dict", "instance_key",
})  # fmt: skip
"""Attributes of every cell."""
