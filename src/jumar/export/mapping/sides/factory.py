"""A model that `module:callable` makes, as a side of a map: `of_factory`, and `Model`, which runs it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from jumar.base.errors import InputError
from jumar.export.mapping.sides.side import Side, of_state


@dataclass(frozen=True, slots=True)
class Model:
    """A model of PyTorch in eval mode, and example inputs where the factory gives them."""

    module: torch.nn.Module
    inputs: tuple[torch.Tensor, ...] = ()

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the tensors among what the model gives for inputs, in order."""
        with torch.no_grad():
            return list(_tensors(self.module(*inputs)))

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Give the model these values; tensors without one keep theirs. Raises InputError where they do not fit."""
        try:
            self.module.load_state_dict(dict(state), strict=False)
        except RuntimeError as error:
            raise InputError(f"the model does not take the values ({str(error).splitlines()[-1].strip()}).") from error


def of_factory(factory: str) -> Side:
    """Return the model that a factory makes: `module:callable`, giving a model, or a model and its example inputs.

    The current folder is on the import path. Raises InputError where the factory gives something else.
    """
    made = _call(factory)
    model, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, ())
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"{factory} must return a model or (model, example_inputs); got a {type(made).__name__}.")
    inputs = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    if not all(isinstance(item, torch.Tensor) for item in inputs):
        raise InputError(f"the example inputs of {factory} must be tensors, one or a tuple of them.")
    model = model.cpu().eval()
    state = {name: value for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}
    return of_state(
        factory,
        state,
        classes={path: type(module).__name__ for path, module in model.named_modules()},
        ties=_ties(state),
        program=Model(model, tuple(item.detach().cpu() for item in inputs)),
    )


def _call(factory: str) -> Any:
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
    return make()


def _ties(state: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Return the names of tensors that share all their memory with an earlier one, and its name."""
    first: dict[tuple[Any, ...], str] = {}
    found = {}
    for name, value in state.items():
        if value.numel():
            known = first.setdefault((value.data_ptr(), value.shape, value.stride()), name)
            if known != name:
                found[name] = known
    return found


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return []
