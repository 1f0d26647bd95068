"""Names of modules: dotted paths from the outermost module that is called, wrappers left out."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

_WRAPPED_IN = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
    "OptimizedModule": "_orig_mod",
    "AveragedModel": "module",
}
"""Wrapper class of PyTorch to the attribute that holds the module it wraps."""


def unwrap(module: nn.Module) -> nn.Module:
    """Return the module inside DDP, DataParallel, FSDP, compiled and similar wrappers."""
    while True:
        attribute = _WRAPPED_IN.get(type(module).__name__)
        inner = getattr(module, attribute, None) if attribute else None
        if not isinstance(inner, nn.Module):
            return module
        module = inner


class ModuleNames:
    """Paths of the modules of a run.

    The first outermost module that has parameters is the model: its own path is empty and those
    below it are those of `named_modules()`. Any other outermost module (a loss, a discriminator) is
    called after its class, `CrossEntropyLoss`, and the second of a class `Generator#2`.
    """

    def __init__(self, model: nn.Module | None = None) -> None:
        self._paths: dict[int, tuple[weakref.ref[nn.Module], str]] = {}
        """By `id`: a module may define `==` and then has no hash."""
        self._parameters: dict[int, tuple[weakref.ref[torch.Tensor], str, str, str]] = {}
        self._num_of_class: dict[str, int] = {}
        self._has_model = False
        if model is not None:
            self._adopt(unwrap(model), "")
            self._has_model = True

    def path(self, module: nn.Module, *, outermost: bool, parent: str) -> str | None:
        """Return the path of `module`, or None for a wrapper; `outermost` when no module is being called."""
        inner = unwrap(module)
        path = self.of_number(id(inner))
        if path is None:
            path = self._name_root(inner) if outermost else self._name_late(inner, parent)
        return path if inner is module else None

    def of_number(self, number: int) -> str | None:
        """Return the path of the module with this `id`; None when it has none yet, or lives no more."""
        reference, path = self._paths.get(number, (None, None))
        return path if reference is not None and reference() is not None else None

    def of_parameter(self, parameter: torch.Tensor) -> tuple[str, str]:
        """Return path and class of the module that owns `parameter`; empty when it is not known."""
        reference, path, kind, _ = self._parameters.get(id(parameter), (None, "", "", ""))
        return (path, kind) if reference is not None and reference() is parameter else ("", "")

    def parameter_name(self, parameter: torch.Tensor) -> str:
        """Return the name of `parameter` within its module (`weight`); empty when it is not known."""
        reference, _, _, name = self._parameters.get(id(parameter), (None, "", "", ""))
        return name if reference is not None and reference() is parameter else ""

    def layers(self) -> dict[str, dict[str, Any]]:
        """Return by path the class and the settings of each of PyTorch's own layers that were met."""
        living = ((reference(), path) for reference, path in self._paths.values())
        found = {path: settings for module, path in living if module is not None and (settings := _settings(module))}
        return dict(sorted(found.items()))

    def _name_root(self, module: nn.Module) -> str:
        is_model = not self._has_model and next(module.parameters(), None) is not None
        if is_model:
            self._has_model = True
            self._adopt(module, "")
            return ""
        kind = type(module).__name__
        number = self._num_of_class[kind] = self._num_of_class.get(kind, 0) + 1
        path = kind if number == 1 else f"{kind}#{number}"
        self._adopt(module, path)
        return path

    def _name_late(self, module: nn.Module, parent: str) -> str:
        """Name a module that no parent holds as an attribute (made on the fly, kept in a list)."""
        path = f"{parent}.{type(module).__name__}" if parent else type(module).__name__
        self._adopt(module, path)
        return path

    def _adopt(self, root: nn.Module, path: str) -> None:
        for below, module in named_modules(root):
            full = ".".join(part for part in (path, below) if part)
            self._paths[id(module)] = weakref.ref(module), full
            for name, parameter in module._parameters.items():
                if parameter is not None and self.of_parameter(parameter) == (
                    "",
                    "",
                ):  # the first owner of a shared one
                    self._parameters[id(parameter)] = (weakref.ref(parameter), full, type(module).__name__, name)


def named_modules(root: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Yield (path, module) of `root` and all below it as `nn.Module.named_modules` does, wrappers left out."""
    stack = [(prefix, root)]
    done: set[int] = set()
    while stack:
        path, module = stack.pop()
        inner = unwrap(module)
        if id(inner) in done:
            continue
        done.add(id(inner))
        yield path, inner
        children = [
            (f"{path}.{name}" if path else name, child) for name, child in inner._modules.items() if child is not None
        ]
        stack.extend(reversed(children))


def _settings(module: nn.Module) -> dict[str, Any]:
    """Return class and settings of one of PyTorch's own layers: what its class lists as constants. Empty for others."""
    kind = type(module)
    if not kind.__module__.startswith("torch.nn."):
        return {}
    found: dict[str, Any] = {"type": kind.__name__}
    for name in getattr(kind, "__constants__", ()):
        value = getattr(module, name, None)
        if isinstance(value, tuple) and all(isinstance(item, _PLAIN) for item in value):
            found[name] = list(value)
        elif isinstance(value, _PLAIN):
            found[name] = value
    if "bias" in module._parameters and "bias" not in found:
        found["bias"] = module._parameters["bias"] is not None
    return found


_PLAIN = (bool, int, float, str)
