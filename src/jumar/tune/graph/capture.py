"""From a model to its graph: `torch.export`, one form, weights beside it, and a look at what it computes."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from jumar.tune.errors import TuneError
from jumar.tune.graph import data
from jumar.tune.graph.captured import Captured
from jumar.tune.graph.checks import check
from jumar.tune.graph.fastpath import without_fast_path
from jumar.tune.graph.nesting import flat, register_dataclasses
from jumar.tune.graph.reading import Read, read_program
from jumar.tune.graph.untouched import Run, ran, untouched

__all__ = [
    "ControlFlow",
    "ModelFails",
    "Read",
    "exported",
    "graph_of_module",
    "graph_of_program",
    "read_program",
    "silence",
]

_CONTROL_FLOW = ("data-dependent", "GuardOnDataDependent", "Could not guard", "graph break", "control flow")


class ControlFlow(TuneError):
    """The model decides by its values what it computes, so that it is no single graph."""


class ModelFails(TuneError):
    """The model raises on its example inputs."""


def graph_of_module(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, *, folder: Path,
    name: str = "model", origin: str = "", constants: Sequence[int] = (),
) -> Captured:  # fmt: skip
    """Return the graph of a model's inference on these inputs, and write its weights and inputs to `folder`.

    The model is captured in evaluation mode and left as it was, the buffers that it writes among it: they are variable
    inputs of the graph, which writes to them. `constants` are the places among the flat arguments of tensors that are
    weights handed in (as TorchDynamo does). Raises ModelFails for a model that cannot be run, ControlFlow for one that
    is no single graph, TuneError for one that cannot be captured for another reason.
    """
    keywords = dict(kwargs or {})
    register_dataclasses((args, keywords))
    try:
        run = ran(model, args, keywords)
    except TuneError:  # of a model that is ours, such as an ONNX file's
        raise
    except (Exception, SystemExit) as error:  # the user's model may raise anything
        raise ModelFails(
            f"the model cannot be run: {type(error).__name__}: {_first_line(error)}. Call it by hand with the same "
            "inputs, and mend it or them."
        ) from error
    with untouched(model):
        program = exported(model, tuple(args), keywords)
    made = read_program(program, tuple(args), keywords, set(constants))
    return _write(made, folder, name, origin, run)


def graph_of_program(
    program: torch.export.ExportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, *,
    folder: Path, name: str = "model", origin: str = "",
) -> Captured:  # fmt: skip
    """Return the graph of an exported program on these inputs; otherwise as `graph_of_module`."""
    made = read_program(program, tuple(args), dict(kwargs or {}), set())
    return _write(made, folder, name, origin, None)


def exported(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.export.ExportedProgram:
    """Return the model exported on these inputs. Raises ControlFlow or TuneError."""
    if isinstance(model, torch.fx.GraphModule):
        model = without_fast_path(model)
    try:
        with torch.no_grad(), silence():
            return torch.export.export(model, args, kwargs, strict=False)
    except Exception as error:  # exporting runs the user's code, which may raise anything
        reason = _first_line(error).partition(" (unhinted")[0]
        text = f"{type(error).__name__} {error}"
        if any(word in text for word in _CONTROL_FLOW):
            raise ControlFlow(
                f"the model decides by its values what it computes ({reason}); write the choice with torch.where, "
                "or let its parts be tuned by themselves."
            ) from error
        raise TuneError(
            f"the model cannot be captured: {type(error).__name__}: {reason}; it is left untuned."
        ) from error


def _write(made: Read, folder: Path, name: str, origin: str, run: Run | None) -> Captured:
    expected = None if run is None else _expected(made, run)
    try:
        findings = check(name, made.graph, made.tensors, made.operators, expected)
    except Exception as error:  # an operator that only exists for shapes, or fails on values
        raise TuneError(
            f"the captured graph cannot be computed: {type(error).__name__}: {_first_line(error)}; it is left untuned."
        ) from error
    path = folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name) or 'model'}-{made.graph.key[:12]}.pt"
    data.save(path, made.tensors)
    return Captured(
        graph=made.graph,
        data=path,
        name=name,
        origin=origin,
        in_nesting=made.in_nesting,
        out_nesting=made.out_nesting,
        places=made.places,
        state=made.state,
        findings=findings,
    )


def _expected(made: Read, run: Run) -> list[Any]:
    """Return what the model returned and what it wrote, as the graph returns and writes it."""
    results = [value for place, value in enumerate(flat(run.result)) if place not in made.known_results]
    arguments = {place: argument for argument, place in enumerate(made.places) if place is not None}
    written = [next(made.graph.nodes[value - len(made.graph.inputs)].references()) for value in made.graph.effects]
    own = [
        run.arguments[arguments[place]] if place in arguments else run.buffers.get(made.state[place])
        for place in written
    ]
    return [*results, *own]


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep PyTorch from writing pages about a model that is no single graph: the error says it in a sentence."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[0].partition(", but expected one of:")[0] if lines else type(error).__name__
    return first.rstrip(".:")[:300]
