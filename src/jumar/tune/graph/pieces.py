"""A model that is no single graph, taken apart where `torch.compile` takes it apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx

from jumar.tune.errors import TuneError
from jumar.tune.graph.capture import graph_of_module, silence
from jumar.tune.graph.captured import Captured
from jumar.tune.graph.dynamo import constant_arguments
from jumar.tune.graph.untouched import untouched


def graphs_of_pieces(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], *, folder: Path, name: str, origin: str
) -> list[Captured]:
    """Return the graphs that one run of the model is made of, in the order in which they begin.

    Pieces that cannot be captured themselves are left out. TorchDynamo's caches are left as if it had not run.
    Raises TuneError when the model itself cannot be run.
    """
    found: list[Captured] = []
    for piece in _pieces(model, args, kwargs):
        if not any(node.op in {"call_function", "call_method"} for node in piece.module.graph.nodes):
            continue
        with suppress(TuneError):
            found.append(
                graph_of_module(
                    piece.module,
                    piece.inputs,
                    folder=folder,
                    name=f"{name} piece {len(found)}",
                    origin=origin,
                    constants=piece.weights,
                )
            )
    return found


@dataclass(slots=True)
class _Piece:
    module: fx.GraphModule
    inputs: list[Any] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)


def _pieces(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[_Piece]:
    pieces: list[_Piece] = []

    def collect(module: fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        piece = _Piece(module, weights=sorted(constant_arguments(module, examples)))

        def run(*inputs: Any) -> Any:
            if not piece.inputs:
                piece.inputs = [_kept(value) for value in inputs]
                pieces.append(piece)
            return module(*inputs)

        return run

    try:
        with untouched(model), torch.no_grad(), silence():
            torch.compile(model, backend=collect, dynamic=False)(*_kept_all(args), **_kept_all(kwargs))
    except Exception as error:  # the user's model may raise anything
        reason = str(error).strip().splitlines()[0].rstrip(".")[:300] if str(error).strip() else ""
        raise TuneError(f"the model cannot be run: {type(error).__name__}: {reason}.") from error
    finally:
        torch._dynamo.reset()
    return pieces


def _kept_all(values: Any) -> Any:
    return torch.utils._pytree.tree_map(_kept, values)


def _kept(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) and type(value) is torch.Tensor else value
