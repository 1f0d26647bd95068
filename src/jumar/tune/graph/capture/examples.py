"""Example inputs for a gear: tensors of the sizes that were asked for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from jumar.base.errors import UsageError
from jumar.tune.graph.capture.captured import Gear, InputShape


def example(
    shape: InputShape, dtype: torch.dtype | None = None, like: torch.Tensor | None = None, place: int = 0
) -> torch.Tensor:
    """Return values of a shape: drawn from `like` where it is given, else normal numbers, or the integers 0 and 1.

    Inputs of other places have other values: of equal ones a model may take the difference, and divide by it.
    """
    generator = torch.Generator().manual_seed(place)
    kind = getattr(torch, shape.dtype) if shape.dtype else dtype or (like.dtype if like is not None else torch.float32)
    if like is not None and like.dtype is kind and like.numel():
        if tuple(like.shape) == shape.shape:
            return like
        elements = like.detach().reshape(-1)
        places = torch.randint(elements.numel(), shape.shape, generator=generator)
        return elements[places]
    if kind.is_floating_point:
        return torch.randn(shape.shape, generator=generator).to(kind)
    return torch.randint(0, 2, shape.shape, generator=generator).to(kind)


def positional(gear: Gear, forward: Any) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Return the arguments of `forward` for a gear: by name as keywords, without a name in order.

    Raises UsageError for a name that it does not take.
    """
    names = list(inspect.signature(forward).parameters)
    takes_any = any(one.kind is one.VAR_KEYWORD for one in inspect.signature(forward).parameters.values())
    args: list[torch.Tensor] = []
    kwargs: dict[str, torch.Tensor] = {}
    for shape in gear:
        if shape.name and shape.name not in names and not takes_any:
            raise UsageError(f"--input-shape names {shape.name}, and the model takes {', '.join(names)}.")
        if shape.name and not (len(args) < len(names) and names[len(args)] == shape.name and not kwargs):
            kwargs[shape.name] = example(shape, place=len(args) + len(kwargs))
        else:
            args.append(example(shape, place=len(args)))
    return args, kwargs


def resized(
    args: Sequence[Any], kwargs: Mapping[str, Any], gear: Gear, names: Sequence[str]
) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments with the tensors that a gear names in its sizes; `names` are those of the positional ones.

    Raises UsageError for a name that is none of a tensor argument.
    """
    new_args, new_kwargs = list(args), dict(kwargs)
    known = [*names[: len(new_args)], *new_kwargs]
    for shape in gear:
        place = next((at for at, value in enumerate(new_args) if isinstance(value, torch.Tensor)), None)
        if shape.name in new_kwargs and isinstance(new_kwargs[shape.name], torch.Tensor):
            new_kwargs[shape.name] = example(shape, like=new_kwargs[shape.name])
            continue
        if shape.name:
            place = known.index(shape.name) if shape.name in known[: len(new_args)] else None
        if place is None or not isinstance(new_args[place], torch.Tensor):
            raise UsageError(
                f"--input-shape names {shape.name or 'no input'}, and the model's tensors are {', '.join(known)}."
            )
        new_args[place] = example(shape, like=new_args[place])
    return new_args, new_kwargs
