"""`build`: what a factory makes, as a model that takes a flat list of named tensors."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from jumar.base.errors import InputError, UsageError

_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A model in eval mode on the CPU, and example inputs."""

    model: torch.nn.Module
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    """Positional and named arguments of a call, with the example tensors in them."""
    names: tuple[str, ...]
    """One for each tensor in the arguments, in order."""

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The tensors in the arguments, in order."""
        return tuple(item for item in pytree.tree_leaves(self.arguments) if isinstance(item, torch.Tensor))

    def filled(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with `tensors` in the places of the example's."""
        leaves, spec = pytree.tree_flatten(self.arguments)
        left = iter(tensors)
        filled = [next(left) if isinstance(item, torch.Tensor) else item for item in leaves]
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return tuple(args), dict(kwargs)

    def run(self, tensors: Sequence[torch.Tensor] | None = None) -> list[np.ndarray]:
        """Return the tensors that the model gives, in order, for the example inputs or others in their place.

        Floating types that NumPy lacks come as float32. The model may raise what it likes.
        """
        args, kwargs = self.filled(tensors) if tensors is not None else self.arguments
        args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
        with torch.no_grad():
            return arrays(self.model(*args, **kwargs))

    @contextlib.contextmanager
    def flat(self) -> Iterator[torch.nn.Module]:
        """Give the model with a `forward` that takes the tensors one by one, under their names."""
        if isinstance(self.model, torch.jit.ScriptModule):
            yield self.model
            return
        own, had = self.model.forward, "forward" in self.model.__dict__

        def forward(*tensors: torch.Tensor) -> Any:
            args, kwargs = self.filled(tensors)
            return own(*args, **kwargs)

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(name, kind) for name in self.names]
        forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        self.model.forward = forward
        try:
            yield self.model
        finally:
            if had:
                self.model.forward = own
            else:
                del self.model.forward


def build(factory: str) -> Built:
    """Call `module:callable` (the current folder is on the path). It returns a model and example inputs.

    The inputs are a tensor, a tuple of them, or a dict of named arguments; arguments may hold tensors in tuples, lists
    and dicts, and plain values, which become part of the model. Raises InputError when it does not give these.
    """
    made = _make(factory)()
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], torch.nn.Module):
        raise InputError(f"{factory} must return (model, example_inputs); it returned a {type(made).__name__}.")
    model, given = made
    args: tuple[Any, ...] = () if isinstance(given, Mapping) else _positional(given)
    kwargs = dict(given) if isinstance(given, Mapping) else {}
    leaves = pytree.tree_leaves((args, kwargs))
    tensors = [item for item in leaves if isinstance(item, torch.Tensor)]
    if not tensors or not all(isinstance(item, (torch.Tensor, *_PLAIN)) for item in leaves):
        raise InputError(f"the example inputs of {factory} must be tensors: one, a tuple or a dict of them.")
    if not all(isinstance(key, str) for key in kwargs):
        raise InputError(f"the dict of example inputs of {factory} must have names of arguments as its keys.")
    model, moved = (
        model.cpu().eval(),
        pytree.tree_map_only(torch.Tensor, lambda item: item.detach().cpu(), (args, kwargs)),
    )
    return Built(model=model, arguments=moved, names=_names(model, args, kwargs, factory))


def _positional(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _make(factory: str) -> Any:
    name, _, attribute = factory.partition(":")
    if not name or not attribute:
        raise InputError(f'the factory must be module:callable; got "{factory}". Try models:build.')
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        make = getattr(importlib.import_module(name), attribute)
    except ModuleNotFoundError as error:
        raise InputError(f"the factory's module {name} does not import ({error}); run in its folder.") from error
    except AttributeError as error:
        raise InputError(f"the module {name} has no {attribute!r}; name a callable of it.") from error
    if not callable(make):
        raise InputError(f"{factory} is a {type(make).__name__} and must be callable; name a function.")
    return make


def _names(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], factory: str) -> tuple[str, ...]:
    """Return a name for each tensor: that of the parameter of `forward`, with a number where it holds several."""
    try:
        bound = inspect.signature(model.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"the example inputs of {factory} do not fit the model's forward ({error}).") from error
    except ValueError:  # a forward without a signature
        return tuple(f"input_{index}" for index, _ in enumerate(_tensors((args, kwargs))))
    by_value: dict[int, str] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            by_value |= {id(item): key for key, item in value.items()}
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            by_value |= {id(item): f"{name}_{index}" for index, item in enumerate(value)}
        else:
            by_value[id(value)] = name
    found: list[str] = []
    for index, value in enumerate((*args, *kwargs.values())):
        name = by_value.get(id(value), f"input_{index}")
        inner = _tensors(value)
        found += [name] if isinstance(value, torch.Tensor) else [f"{name}_{number}" for number in range(len(inner))]
    return _unique(found)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [item for item in pytree.tree_leaves(value) if isinstance(item, torch.Tensor)]


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    made: list[str] = []
    for name in names:
        number, own = 1, name
        while own in made:
            own, number = f"{name}_{number}", number + 1
        made.append(own)
    return tuple(made)


def renamed(built: Built, names: Sequence[str]) -> Built:
    """Return it with the user's names of the inputs. Raises UsageError for another number of names."""
    if not names:
        return built
    if len(names) != len(built.names):
        raise UsageError(
            f"--input-names must name {len(built.names)} inputs ({', '.join(built.names)}); got {len(names)}."
        )
    return Built(model=built.model, arguments=built.arguments, names=tuple(names))


def arrays(result: Any) -> list[np.ndarray]:
    """Return the tensors in a model's output, in order, as the exporters flatten them."""
    return [_array(item.detach().cpu()) for item in pytree.tree_leaves(result) if isinstance(item, torch.Tensor)]


def _array(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.to_dense() if tensor.layout is not torch.strided else tensor
    try:
        return tensor.numpy()
    except TypeError:  # bfloat16, float8
        return tensor.float().numpy()
