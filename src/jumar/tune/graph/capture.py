"""From a model to its graph: `torch.export`, one form, weights beside it, and a look at what it computes."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from jumar.tune.errors import TuneError
from jumar.tune.graph import data
from jumar.tune.graph.captured import Captured
from jumar.tune.graph.checks import check
from jumar.tune.graph.fx import from_fx
from jumar.tune.graph.graph import Graph
from jumar.tune.graph.inplace import has_in_place, without_plain_in_place
from jumar.tune.graph.normal import in_order, simplify
from jumar.tune.task import TensorSpec

_CONTROL_FLOW = ("data-dependent", "GuardOnDataDependent", "Could not guard", "graph break", "control flow")


class ControlFlow(TuneError):
    """The model decides by its values what it computes, so that it is no single graph."""


def graph_of_module(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, *, folder: Path,
    name: str = "model", origin: str = "", constants: Sequence[int] = (),
) -> Captured:  # fmt: skip
    """Return the graph of a model's inference on these inputs, and write its weights and inputs to `folder`.

    The model is captured in evaluation mode and left as it was. `constants` are the places among the flat
    arguments of tensors that are weights handed in (as TorchDynamo does). Raises ControlFlow for a model that is no
    single graph, TuneError for one that cannot be captured for another reason.
    """
    keywords = dict(kwargs or {})
    with _evaluation(model):
        program = exported(model, tuple(args), keywords)
        made = _Reader(program, tuple(args), keywords, set(constants)).read()
        with torch.no_grad():
            expected = model(*args, **keywords)
    return _write(made, folder, name, origin, expected)


def graph_of_program(
    program: torch.export.ExportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, *,
    folder: Path, name: str = "model", origin: str = "",
) -> Captured:  # fmt: skip
    """Return the graph of an exported program on these inputs; otherwise as `graph_of_module`."""
    made = _Reader(program, tuple(args), dict(kwargs or {}), set()).read()
    return _write(made, folder, name, origin, None)


def exported(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.export.ExportedProgram:
    """Return the model exported on these inputs. Raises ControlFlow or TuneError."""
    try:
        with torch.no_grad(), _silence():
            return torch.export.export(model, args, kwargs, strict=False)
    except Exception as error:  # exporting runs the user's code, which may raise anything
        reason = _first_line(error)
        text = f"{type(error).__name__} {error}"
        if any(word in text for word in _CONTROL_FLOW):
            raise ControlFlow(
                f"the model decides by its values what it computes ({reason}); write the choice with torch.where, "
                "or let its parts be tuned by themselves."
            ) from error
        raise TuneError(f"the model cannot be captured: {type(error).__name__}: {reason}.") from error


def read_program(
    program: torch.export.ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any], constants: set[int]
) -> _Read:
    """Return an exported program's graph with its tensors, without looking at what it computes or writing anything."""
    return _Reader(program, args, kwargs, constants).read()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    graph: Graph
    tensors: Mapping[int, torch.Tensor]
    in_spec: str
    out_spec: str
    places: Sequence[int | None]
    operators: Sequence[fx.Node]


class _Reader:
    """Reads one exported program."""

    def __init__(
        self, program: torch.export.ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any], constants: set[int]
    ) -> None:
        self._program = _without_in_place(program)
        self._module = self._program.graph_module
        self._flat = _flat_inputs(self._program, args, kwargs)
        self._constants = constants

    def read(self) -> _Read:
        self._refuse_writes()
        inputs = self._inputs()
        weights = {node: tensor for node, (tensor, argument) in inputs.items() if self._is_weight(argument)}
        operators = [node for node in self._module.graph.nodes if node.op == "call_function"]
        simplify(self._module, weights)
        places = {node: place for place, node in enumerate(self._module.graph.find_nodes(op="placeholder"))}
        graph, held = from_fx(self._module, [places[node] for node in weights])
        tensors = {places[node]: tensor for node, (tensor, _) in inputs.items()} | held
        graph, tensors, order = in_order(graph, tensors)
        numbers = {old: new for new, old in enumerate(order)}
        arguments = {argument: numbers.get(places[node]) for node, (_, argument) in inputs.items()}
        return _Read(
            graph=replace(graph, inputs=[_scaled(spec, tensors[place]) for place, spec in enumerate(graph.inputs)]),
            tensors=tensors,
            in_spec=pytree.treespec_dumps(self._program.call_spec.in_spec),
            out_spec=pytree.treespec_dumps(self._program.call_spec.out_spec),
            places=[arguments.get(argument) for argument in range(len(self._flat))],
            operators=operators,
        )

    def _is_weight(self, argument: int | None) -> bool:
        return argument is None or argument in self._constants

    def _inputs(self) -> dict[fx.Node, tuple[torch.Tensor, int | None]]:
        """Return, for each placeholder, its tensor and which flat argument it is; those that are no tensors go."""
        known = {**self._program.state_dict, **self._program.constants}
        found: dict[fx.Node, tuple[torch.Tensor, int | None]] = {}
        argument = -1
        nodes = list(self._module.graph.find_nodes(op="placeholder"))
        for node, spec in zip(nodes, self._program.graph_signature.input_specs, strict=True):
            given = spec.kind is torch.export.graph_signature.InputKind.USER_INPUT
            if given:
                argument += 1
            value = self._flat[argument] if given else known.get(str(spec.target))
            if isinstance(value, torch.Tensor):
                found[node] = value.detach(), argument if given else None
            elif node.users:
                raise TuneError(
                    f"the model's input {node.name} is {type(value).__name__} and is computed with; hand in a tensor, "
                    "or fix its value in the model."
                )
            else:
                self._module.graph.erase_node(node)
        return found

    def _refuse_writes(self) -> None:
        kinds = torch.export.graph_signature.OutputKind
        for spec in self._program.graph_signature.output_specs:
            if spec.kind not in {kinds.USER_OUTPUT, kinds.TOKEN}:
                raise TuneError(
                    f"the model writes to {spec.target or 'its input'} while it runs, so that two runs differ; "
                    "return the new value as an output."
                )


def _without_in_place(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return the program without in-place operators. The given one may be changed."""
    without_plain_in_place(program.graph_module)
    if not has_in_place(program.graph_module):
        return program
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch 2.13 warns of its own use of LeafSpec here
        functional: torch.export.ExportedProgram = program.run_decompositions({})
    return functional


def _flat_inputs(program: torch.export.ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    from torch.export._tree_utils import reorder_kwargs

    spec = program.call_spec.in_spec
    ordered = reorder_kwargs(kwargs, spec) if spec is not None and kwargs else kwargs
    flat, given = pytree.tree_flatten((args, ordered))
    if spec is not None and given != spec:
        raise TuneError(
            f"the example inputs must be nested as the model was exported; got {len(flat)} values where "
            f"{spec.num_leaves} are taken, or other names."
        )
    return flat


def _write(made: _Read, folder: Path, name: str, origin: str, expected: Any) -> Captured:
    path = folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name) or 'model'}-{made.graph.key[:12]}.pt"
    data.save(path, made.tensors)
    outputs = None if expected is None else pytree.tree_leaves(expected, is_leaf=lambda leaf: leaf is None)
    return Captured(
        graph=made.graph,
        data=path,
        name=name,
        origin=origin,
        in_spec=made.in_spec,
        out_spec=made.out_spec,
        places=made.places,
        findings=check(name, made.graph, made.tensors, made.operators, outputs),
    )


def _scaled(spec: TensorSpec, tensor: torch.Tensor) -> TensorSpec:
    """Return the spec with the scale of the tensor's values."""
    if not tensor.numel() or tensor.is_complex():
        return spec
    values = tensor.detach().to(torch.float64 if tensor.numel() < 1 << 16 else torch.float32)
    low, high = (float(value) for value in values.aminmax())
    if not math.isfinite(low) or not math.isfinite(high):
        return spec
    rms = float(values.square().mean().sqrt())
    return replace(spec, mean=float(values.mean()), rms=rms, minimum=low, maximum=high)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep PyTorch from writing pages about a model that is no single graph: the error says it in a sentence."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def _evaluation(model: torch.nn.Module) -> Iterator[None]:
    """Put every module into evaluation mode, and back into the mode it had."""
    modes = {module: module.training for module in model.modules()}
    if any(modes.values()):
        model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".")[:300] if lines else type(error).__name__
