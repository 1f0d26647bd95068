"""From an exported program to a graph: one form, weights beside it, writes as effects.

`x / 2` of integers computes in PyTorch's default dtype, which no graph states. A graph is computed in other processes,
where the default is float32, so that its key must be the key that it has there.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from jumar.base.findings import Json
from jumar.tune.graph.fx import from_fx
from jumar.tune.graph.graph import Graph, Node, scalars
from jumar.tune.graph.reading.nesting import describe
from jumar.tune.graph.reading.normal import has_in_place, in_order, origin, simplify, without_plain_in_place
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import TensorSpec


def refuse_default_dtype(graph: Graph) -> None:
    """Raise TuneError for a graph that computes in the default dtype where that is not float32."""
    default = torch.get_default_dtype()
    if default is torch.float32:
        return
    node = first_in(graph, default)
    if node is not None:
        raise TuneError(
            f"{node.operator} computes in the default dtype, which must be float32 where the model names none; got "
            f"{default}. Name it in the model (x.to({default})), or leave the default as it is."
        )


def first_in(graph: Graph, default: torch.dtype) -> Node | None:
    """Return the first node of a graph captured under the dtype `default` that computes in it untold; None without."""
    names = {str(dtype).removeprefix("torch.") for dtype in (default, default.to_complex())}
    for value, node in enumerate(graph.nodes, start=len(graph.inputs)):
        spec = graph.spec_of(value)
        if spec is not None and spec.dtype in names and not _is_told(graph, node):
            return node
    return None


def _is_told(graph: Graph, node: Node) -> bool:
    """Tell whether a node's dtype is among its arguments, or that of a tensor that it reads."""
    specs = [graph.spec_of(value) for value in node.references()]
    if any(spec is None or "float" in spec.dtype or "complex" in spec.dtype for spec in specs):
        return True
    return any(isinstance(one, dict) and "dtype" in one for one in scalars([*node.arguments, *node.keywords.values()]))


_GIVEN = torch.export.graph_signature.InputKind.USER_INPUT
_Outputs = torch.export.graph_signature.OutputKind
_MUTATIONS = {_Outputs.BUFFER_MUTATION, _Outputs.USER_INPUT_MUTATION, _Outputs.PARAMETER_MUTATION}


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """An exported program as a graph, and how it stands to the model's arguments and results."""

    graph: Graph
    tensors: Mapping[int, torch.Tensor]
    """Values of the graph's inputs, by place."""
    in_nesting: Json
    out_nesting: Json
    places: Sequence[int | None]
    """For each flat argument, the input that it is; arguments that are one tensor are one input."""
    state: Mapping[int, str]
    """Variable inputs that the model keeps for itself, its buffers, by place: their names."""
    written_arguments: frozenset[int]
    """Flat arguments that a call writes to."""
    operators: Sequence[fx.Node]
    known_results: frozenset[int]
    """Places of flat results that the graph has not: what is no tensor, and arguments that are handed back."""


def read_program(
    program: torch.export.ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any], constants: set[int]
) -> Read:
    """Return an exported program's graph with its tensors, without looking at what it computes or writing anything.

    `constants` are the places among the flat arguments of tensors that are weights handed in (as TorchDynamo does);
    those that the program writes to are none. Raises TuneError for what is no graph of static shape.
    """
    return _Reader(program, args, kwargs, constants).read()


class _Reader:
    """Reads one exported program."""

    def __init__(
        self, program: torch.export.ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any], constants: set[int]
    ) -> None:
        self._program = _of_operators(program)
        self._module = self._program.graph_module
        self._flat = flat_inputs(self._program, args, kwargs)
        self._constants = constants
        self._fixed: dict[int, Any] = {}
        self._passed: dict[int, int] = {}

    def read(self) -> Read:
        written = self._bring_writes_inside()
        inputs = self._inputs()
        weights = {
            node: one.tensor
            for node, one in inputs.items()
            if node not in written and (one.argument is None or one.argument in self._constants)
        }
        operators = [node for node in self._module.graph.nodes if node.op == "call_function"]
        simplify(self._module, weights)
        _part_from(self._module, written)
        places = {node: place for place, node in enumerate(self._module.graph.find_nodes(op="placeholder"))}
        graph, held = from_fx(self._module, [places[node] for node in weights])
        tensors = {places[node]: one.tensor for node, one in inputs.items()} | held
        graph, tensors, order = in_order(graph, tensors)
        refuse_default_dtype(graph)
        numbers = {old: new for new, old in enumerate(order)}
        arguments = {one.argument: numbers[places[node]] for node, one in inputs.items() if places[node] in numbers}
        spec_in, spec_out = self._program.call_spec.in_spec, self._program.call_spec.out_spec
        return Read(
            graph=replace(graph, inputs=[_scaled(spec, tensors[place]) for place, spec in enumerate(graph.inputs)]),
            tensors=tensors,
            in_nesting=describe(spec_in, self._settings()),
            out_nesting=describe(spec_out, self._fixed, self._passed),
            places=self._places(arguments),
            state={
                numbers[places[node]]: one.name
                for node, one in inputs.items()
                if one.argument is None and node not in weights and places[node] in numbers
            },
            written_arguments=frozenset(
                one.argument for node, one in inputs.items() if node in written and one.argument is not None
            ),
            operators=operators,
            known_results=frozenset({*self._fixed, *self._passed}),
        )

    def _places(self, arguments: Mapping[int | None, int]) -> list[int | None]:
        """Return which input each flat argument is. Of arguments that are one tensor PyTorch captures the last."""
        found = [arguments.get(argument) for argument in range(len(self._flat))]
        ones = {id(value): place for value, place in zip(self._flat, found, strict=True) if place is not None}
        return [ones.get(id(value), place) for value, place in zip(self._flat, found, strict=True)]

    def _settings(self) -> dict[int, Any]:
        """Return the flat arguments that are no tensors: the graph holds for these values."""
        return {place: value for place, value in enumerate(self._flat) if _is_plain(value)}

    def _inputs(self) -> dict[fx.Node, _Input]:
        """Return what each placeholder is; those that are no tensors go."""
        known = {**self._program.state_dict, **self._program.constants}
        found: dict[fx.Node, _Input] = {}
        argument = -1
        nodes = list(self._module.graph.find_nodes(op="placeholder"))
        for node, spec in zip(nodes, self._program.graph_signature.input_specs, strict=True):
            given = spec.kind is _GIVEN
            if given:
                argument += 1
            value = self._flat[argument] if given else known.get(str(spec.target))
            if isinstance(value, torch.Tensor) and (node.users or value.layout is torch.strided):
                _refuse_kind(node.name if given else str(spec.target), value)
                found[node] = _Input(value.detach(), argument if given else None, str(spec.target))
            elif node.users:
                raise TuneError(
                    f"the model's input {node.name} is {type(value).__name__} and is computed with; hand in a tensor, "
                    "or fix its value in the model."
                )
            else:
                self._module.graph.erase_node(node)
        return found

    def _bring_writes_inside(self) -> set[fx.Node]:
        """Write `copy_` for the outputs that an exported program has in its place; return what they write to.

        Results that are numbers or text go: they are the same in every call.
        """
        output = self._module.graph.output_node()
        signature = self._program.graph_signature
        values = list(output.args[0])
        placeholders = self._written_by_name()
        results: list[Any] = []
        written: set[fx.Node] = set()
        for value, spec in zip(values, signature.output_specs, strict=True):
            if spec.kind in _MUTATIONS:
                into = placeholders[spec.kind is _Outputs.USER_INPUT_MUTATION, str(spec.target)]
                if value is not into:
                    self._write(into, value, output)
                    written.add(into)
            elif spec.kind in {_Outputs.USER_OUTPUT, _Outputs.TOKEN}:
                results.append(value)
            else:
                raise TuneError(f"the model returns a {spec.kind.name.lower()}, which is not tuned; return tensors.")
        output.args = (self._computed(results, written),)
        return written

    def _computed(self, results: Sequence[Any], written: set[fx.Node]) -> list[Any]:
        """Return the results that the graph computes; note the others, which are known without it."""
        self._fixed = {place: value for place, value in enumerate(results) if not isinstance(value, fx.Node)}
        _refuse_results([value for value in results if isinstance(value, fx.Node)])
        if strange := [value for value in self._fixed.values() if not _is_plain(value)]:
            raise TuneError(
                f"the graph returns {type(strange[0]).__name__}, and only tensors are tuned; return tensors."
            )
        nodes = self._module.graph.find_nodes(op="placeholder")
        given = [spec.kind is _GIVEN for spec in self._program.graph_signature.input_specs]
        arguments = {node: sum(given[:place]) for place, node in enumerate(nodes) if given[place]}
        passed = {
            place: arguments[value]
            for place, value in enumerate(results)
            if value in arguments and value not in written and arguments[value] not in self._constants
        }
        if len(passed) + len(self._fixed) < len(results) or written:
            self._passed = passed
        return [value for place, value in enumerate(results) if place not in {*self._fixed, *self._passed}]

    def _written_by_name(self) -> dict[tuple[bool, str], fx.Node]:
        """Return the placeholders by whether the caller hands them in, and name."""
        nodes = list(self._module.graph.find_nodes(op="placeholder"))
        return {
            (spec.kind is _GIVEN, node.name if spec.kind is _GIVEN else str(spec.target)): node
            for node, spec in zip(nodes, self._program.graph_signature.input_specs, strict=True)
        }

    def _write(self, into: fx.Node, value: Any, before: fx.Node) -> None:
        with self._module.graph.inserting_before(before):
            node = self._module.graph.call_function(torch.ops.aten.copy_.default, (into, value))
        node.meta["val"] = into.meta["val"]


@dataclass(frozen=True, slots=True)
class _Input:
    tensor: torch.Tensor
    argument: int | None
    """Which flat argument it is; None: the model's own."""
    name: str


def _part_from(module: fx.GraphModule, written: set[fx.Node]) -> None:
    """Copy what leaves the graph as a view of memory that is written to: the writes come last."""
    output = module.graph.output_node()
    for user in [*module.graph.nodes]:
        if user is not output and user.target is not torch.ops.aten.copy_.default:
            continue
        values = output.all_input_nodes if user is output else [user.args[1]]
        for value in values:
            if isinstance(value, fx.Node) and origin(value) in written:
                with module.graph.inserting_before(user):
                    copy = module.graph.call_function(torch.ops.aten.clone.default, (value,))
                copy.meta["val"] = value.meta["val"].clone()
                user.replace_input_with(value, copy)
    module.recompile()


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _refuse_results(results: Sequence[fx.Node]) -> None:
    """Refuse results that no two runs could be compared by."""
    for number, value in enumerate(node.meta.get("val") for node in results):
        if not isinstance(value, torch.Tensor):
            raise TuneError(
                "the model returns a number that its values decide (x.item()), and only tensors are tuned; "
                "return the tensor."
            )
        _refuse_kind(f"result {number}", value)
        if value.is_floating_point() and value.itemsize == 1:
            raise TuneError(f"result {number} is {value.dtype}, which PyTorch cannot compare; return a wider dtype.")


def _refuse_kind(name: str, value: torch.Tensor) -> None:
    if value.is_meta:
        raise TuneError(f"{name} is on the device meta, where nothing is computed; make the model on the CPU.")
    if value.layout is not torch.strided:
        layout = str(value.layout).removeprefix("torch.")
        raise TuneError(f"{name} has the layout {layout}, and only dense tensors are tuned; it runs untuned.")


def _of_operators(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return the program without in-place operators and `torch.func.vmap`. The given one may be changed.

    Raises TuneError for one that cannot be written so.
    """
    without_plain_in_place(program.graph_module)
    if not has_in_place(program.graph_module) and not any(map(_is_of_vmap, program.graph.nodes)):
        return program
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PyTorch 2.13 warns of its own use of LeafSpec here
            functional: torch.export.ExportedProgram = program.run_decompositions({})
    except Exception as error:  # PyTorch asserts what it does not support
        reason = str(error).partition("\n")[0].rstrip(".")
        raise TuneError(
            f"the model cannot be written without in-place operators ({type(error).__name__}: {reason}); it is left "
            "untuned. Does it write to tensors that share memory, or that are no buffers?"
        ) from error
    return functional


def _is_of_vmap(node: fx.Node) -> bool:
    return node.op == "call_function" and str(getattr(node.target, "__module__", "")).startswith("torch._functorch")


def flat_inputs(program: torch.export.ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the arguments of an exported program one by one. Raises TuneError for others than it takes."""
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
