"""`load_weights`: puts the weights of a checkpoint into the factory's model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from jumar.base.errors import InputError
from jumar.base.text import listing
from jumar.export.find import find_state_dict, strip_prefixes
from jumar.export.load import load_checkpoint
from jumar.export.onnx.options import OnnxOptions

_SHOWN = 12
_COUNTER = "num_batches_tracked"
"""Of batch normalisations; older checkpoints and other frameworks have none, and in eval mode nothing reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a model got from a checkpoint."""

    path: Path
    found_under: str
    """Dotted path of the state dict in the file; empty: the whole file."""
    num_loaded: int
    num_by_prefix: Mapping[str, int]
    missing: tuple[str, ...]
    """Weights of the model that the checkpoint lacks: they are the factory's."""
    unexpected: tuple[str, ...]
    """Weights of the checkpoint that the model lacks."""


def load_weights(model: torch.nn.Module, options: OnnxOptions) -> Loaded | None:
    """Put the weights of `options.weights` into `model`; None where no checkpoint is named.

    Raises InputError for a file that cannot be used, for another shape, and, where `options.strict`, when names are
    missing on one side.
    """
    if options.weights is None:
        return None
    path = Path(options.weights)
    found_under, state, _ = find_state_dict(load_checkpoint(path), options.only, path)
    bare, num_by_prefix = strip_prefixes(state, options.prefixes, path)
    own = model.state_dict()
    _check_shapes(own, bare, path)
    missing = [key for key in own if key not in bare and not key.endswith(_COUNTER)]
    unexpected = [key for key in bare if key not in own]
    if own and not own.keys() & bare.keys():
        raise InputError(f"{path} has no weight of the model: it has {_few(list(bare))}; the model, {_few(list(own))}.")
    if options.strict and (missing or unexpected):
        parts = [f"lacks {_few(missing)}"] if missing else []
        parts += [f"has {_few(unexpected)} which the model lacks"] if unexpected else []
        raise InputError(f"{path} {' and '.join(parts)}; name the right model, or load what fits with --no-strict.")
    fitting = {key: value for key, value in bare.items() if key in own}
    model.load_state_dict(fitting, strict=False)
    return Loaded(
        path=path, found_under=found_under, num_loaded=len(fitting), num_by_prefix=num_by_prefix,
        missing=tuple(missing), unexpected=tuple(unexpected),
    )  # fmt: skip


def _check_shapes(own: Mapping[str, Any], given: Mapping[str, Any], path: Path) -> None:
    both = [(key, own[key], given[key]) for key in own if key in given]
    for key, mine, theirs in both:
        if isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor) and mine.shape != theirs.shape:
            raise InputError(
                f"{path} has {key} with the shape {tuple(theirs.shape)} where the model has {tuple(mine.shape)}; "
                "build the model with the sizes it was trained with."
            )


def _few(names: Sequence[str]) -> str:
    return listing(list(names), _SHOWN)
