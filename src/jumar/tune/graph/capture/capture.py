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
from torch import fx

from jumar.base.findings import Finding
from jumar.tune.graph.capture import data
from jumar.tune.graph.capture.captured import Captured
from jumar.tune.graph.capture.fastpath import without_fast_path
from jumar.tune.graph.capture.untouched import Run, ran, untouched
from jumar.tune.graph.graph import Graph
from jumar.tune.graph.operators import function_of, node_draws
from jumar.tune.graph.reading.nesting import flat, register_dataclasses
from jumar.tune.graph.reading.reading import Read, read_program
from jumar.tune.graph.rules import Observed, nan_output, not_deterministic, random_operator
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import Function

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
    except TuneError:  # of a model that Jumar made, such as an ONNX file's
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


def constant_arguments(module: fx.GraphModule, arguments: Sequence[Any]) -> set[int]:
    """Return which arguments are parameters or buffers of the user's modules; known while the module is compiled.

    A module's numbers that come as tensors are none: they are another tensor in each call.
    """
    found = set()
    for number, (node, value) in enumerate(zip(module.graph.find_nodes(op="placeholder"), arguments, strict=True)):
        given = node.meta.get("grapharg")
        if getattr(given, "pass_arg_as_tensor", False):
            continue
        source = getattr(given, "source", None)
        guard = getattr(source, "guard_source", None)
        if isinstance(value, torch.nn.Parameter) or (guard is not None and guard.is_unspecialized_nn_module()):
            found.add(number)
    return found


SAME = 1e-4
"""Greatest difference, relative to the greatest value, at which two runs count as the same."""


def check(
    name: str, graph: Graph, tensors: Mapping[int, torch.Tensor], operators: Sequence[fx.Node],
    expected: Sequence[Any] | None,
) -> tuple[Finding, ...]:  # fmt: skip
    """Run the graph twice on its own inputs. `expected` are the model's outputs and what it wrote, None: not known.

    Raises what PyTorch raises when an operator cannot run.
    """
    drawing = sorted({str(node.target) for node in operators if node_draws(node)})
    if drawing:
        return tuple(random_operator.find(Observed(name=name, drawing=drawing)))
    function = function_of(graph, {place: tensors[place] for place in graph.constants})
    first, second = (_computed(function, graph, tensors) for _ in range(2))
    difference = greatest_difference(first, second)
    between = "two runs of it"
    if difference <= SAME and expected is not None:
        difference, between = greatest_difference(first, expected), "the model and its captured graph"
    if difference > SAME:
        return tuple(not_deterministic.find(Observed(name=name, difference=difference, between=between)))
    return tuple(nan_output.find(Observed(name=name, outputs=first[: len(graph.outputs)])))


def _computed(function: Function, graph: Graph, tensors: Mapping[int, torch.Tensor]) -> list[torch.Tensor | None]:
    """Return the outputs and what the effects wrote, in memory of their own."""
    inputs = {place: tensors[place].clone() for place in graph.variables}
    with torch.no_grad():
        outputs = function(*inputs.values())
    written = [next(graph.nodes[value - len(graph.inputs)].references()) for value in graph.effects]
    return [None if one is None else one.clone() for one in [*outputs, *(inputs[place] for place in written)]]


def greatest_difference(left: Sequence[Any], right: Sequence[Any]) -> float:
    """Return the greatest difference of outputs relative to their greatest value; infinite for other shapes."""
    if len(left) != len(right):
        return float("inf")
    return max((_difference(*pair) for pair in zip(left, right, strict=True)), default=0.0)


def _difference(left: Any, right: Any) -> float:
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return 0.0  # numbers and Nones are fixed in a graph
    left, right = left.detach(), right.detach()  # a model may return a parameter
    if left.shape != right.shape or left.dtype != right.dtype:
        return float("inf")
    if left.is_complex():
        left, right = torch.view_as_real(left.resolve_conj()), torch.view_as_real(right.resolve_conj())
    if not left.is_floating_point():
        return float(not torch.equal(left, right))
    finite = torch.isfinite(left)
    if not torch.equal(finite, torch.isfinite(right)):
        return float("inf")
    left, right = left[finite].double(), right[finite].double()
    if not left.numel():
        return 0.0
    return float((left - right).abs().max() / left.abs().max().clamp_min(1e-30))
