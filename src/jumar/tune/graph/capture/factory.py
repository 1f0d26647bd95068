"""Graphs of a model that a function of the user's makes: `package.module:callable`, `folder/file.py:callable`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx

from jumar.base.errors import InputError
from jumar.tune.graph.capture.capture import ControlFlow, ModelFails, constant_arguments, graph_of_module, silence
from jumar.tune.graph.capture.captured import Captured, Gear
from jumar.tune.graph.capture.examples import positional, resized
from jumar.tune.graph.capture.untouched import untouched
from jumar.tune.graph.rules import Observed, graph_break
from jumar.tune.model.errors import TuneError
from jumar.tune.model.process import from_here, named


@dataclass(frozen=True, slots=True)
class _Made:
    model: torch.nn.Module
    args: Sequence[Any] | None
    kwargs: Mapping[str, Any]


def load_factory(module: str, name: str, where: str, gears: Sequence[Gear], folder: Path) -> list[Captured]:
    """Return the graphs of the model that `name` of `module` makes, one a gear, or one a piece.

    It returns a model, `(model, args)` or `(model, args, kwargs)`, or is a model itself. The current folder comes
    first in what is imported; what it prints goes to stderr. Raises InputError for a module or name that is not
    there, TuneError for a model that cannot be used.
    """
    with from_here(module), contextlib.redirect_stdout(sys.stderr):
        made = _made(_imported(module, name, where), where)
        return [one for gear in _gears(made, gears, where) for one in _captured(made, *gear, where, name, folder)]


def _captured(
    made: _Made, args: Sequence[Any], kwargs: Mapping[str, Any], label: str, where: str, name: str, folder: Path
) -> list[Captured]:
    title = f"{name} {label}".strip()
    try:
        return [graph_of_module(made.model, args, kwargs, folder=folder, name=title, origin=where)]
    except ModelFails:
        raise
    except TuneError as error:
        pieces = _pieces(made, args, kwargs, folder=folder, name=title, origin=where)
        if not pieces:
            raise
        seen = Observed(name=title, break_reason=_reason(error), num_pieces=len(pieces))
        notes = tuple(graph_break.find(seen))
        return [replace(one, is_piece=True, findings=(*one.findings, *notes)) for one in pieces]


def _pieces(made: _Made, args: Sequence[Any], kwargs: Mapping[str, Any], **place: Any) -> list[Captured]:
    """Return the pieces; none where TorchDynamo cannot run the model either: the first reason is told then."""
    try:
        return graphs_of_pieces(made.model, args, kwargs, **place)
    except TuneError:
        return []


def _reason(error: TuneError) -> str:
    """Return why a model is no single graph: what PyTorch said, else our own sentence without its advice."""
    text = str(error.__cause__).strip() if isinstance(error, ControlFlow) else str(error).partition(";")[0]
    return text.splitlines()[0].partition(" (unhinted")[0].rstrip(".")[:200]


def _gears(made: _Made, gears: Sequence[Gear], where: str) -> Iterator[tuple[Sequence[Any], Mapping[str, Any], str]]:
    """Yield arguments, keyword arguments and a label for each gear."""
    if not gears:
        if made.args is None:
            raise TuneError(
                f"{where} must return (model, example inputs), or be given their sizes; it returned the model "
                'alone. Add --input-shape "1,3,224,224".'
            )
        yield made.args, made.kwargs, ""
        return
    for gear in gears:
        label = ", ".join(map(str, gear)) if len(gears) > 1 else ""
        if made.args is None:
            args, kwargs = positional(gear, made.model.forward)
            yield args, kwargs, label
        else:
            args, kwargs = resized(made.args, made.kwargs, gear, _names(made.model))
            yield args, kwargs, label


def _names(model: torch.nn.Module) -> list[str]:
    import inspect

    return list(inspect.signature(model.forward).parameters)


def _made(found: Any, where: str) -> _Made:
    if not isinstance(found, torch.nn.Module):
        if not callable(found):
            raise InputError(f"{where} must be a function that returns a model; it is a {type(found).__name__}.")
        try:
            found = found()
        except (Exception, SystemExit) as error:  # the user's code may raise anything
            raise TuneError(
                f"{where} raised {type(error).__name__}: {_line(error)}; mend it, then tune again."
            ) from error
    parts = found if isinstance(found, tuple) else (found,)
    model = parts[0] if parts else None
    is_form = len(parts) <= 3 and all(isinstance(part, Mapping) for part in parts[2:])
    if not isinstance(model, torch.nn.Module) or not is_form:
        raise TuneError(
            f"{where} must return a model, (model, args) or (model, args, kwargs); got "
            f"({', '.join(type(part).__name__ for part in parts)})."
            + (" Put several args into a tuple." if len(parts) > 2 else "")
        )
    if len(parts) == 1:
        return _Made(model, None, {})
    given, kwargs = parts[1], dict(parts[2]) if len(parts) == 3 else {}
    if isinstance(given, Mapping):
        return _Made(model, (), {**given, **kwargs})
    return _Made(model, tuple(given) if isinstance(given, (list, tuple)) else (given,), kwargs)


def _imported(module: str, name: str, where: str) -> Any:
    try:
        return named(module, name)
    except (ImportError, AttributeError, OSError) as error:
        raise InputError(f"{where} cannot be imported: {_line(error)}. Run in the folder it is in.") from error
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        raise TuneError(
            f"{where} raised {type(error).__name__} at import: {_line(error)}; mend it, then tune again."
        ) from error


def _line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")[:300] if str(error).strip() else type(error).__name__


def graphs_of_pieces(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], *, folder: Path, name: str, origin: str
) -> list[Captured]:
    """Return the graphs that one run of the model is made of, in the order in which they begin.

    Pieces that cannot be captured themselves are left out. TorchDynamo's caches are left as if it had not run.
    Raises TuneError when the model itself cannot be run.
    """
    found: list[Captured] = []
    for piece in _run_in_pieces(model, args, kwargs):
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


def _run_in_pieces(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[_Piece]:
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
