"""A graph as an ONNX model, in memory and on disk.

On disk it borrows the weights that it is given: the file holds only what was made from them.
"""

from __future__ import annotations

import inspect
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from onnx import ModelProto, TensorProto, helper
from torch import fx

from jumar.operators import base_name
from jumar.tune.engines.onnx import pointwise, products, reductions, shapes, spatial  # noqa: F401 - they fill the table
from jumar.tune.engines.onnx.draft import Converter, Draft, Value, converter_of, dtype_of, refuse
from jumar.tune.engines.shared.cut import is_fill
from jumar.tune.graph import Graph, Reference
from jumar.tune.graph.fx import annotated
from jumar.tune.model.errors import TuneError

MODEL = "graph.onnx"
WEIGHTS = "weights.json"
BORROWED = "weights"
LARGEST_MODEL_BYTES = 1_900_000_000
"""A protobuf message ends at 2 GiB."""


def save(written: Written, constants: Mapping[Reference, torch.Tensor], folder: Path) -> None:
    """Leave model and list of borrowed weights in `folder`."""
    places = {id(tensor): place for place, tensor in constants.items()}
    borrowed = {
        name: places[id(tensor)]
        for name, tensor in written.initialisers.items()
        if id(tensor) in places and tensor.dtype is not torch.bfloat16  # which NumPy, and so the session, has not
    }
    (folder / MODEL).write_bytes(_with_initialisers(written, set(borrowed)).SerializeToString())
    (folder / WEIGHTS).write_text(json.dumps(borrowed), "utf-8")


def borrowed(folder: Path, constants: Mapping[Reference, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the borrowed weights by their name in the model."""
    places: dict[str, int] = json.loads((folder / WEIGHTS).read_text("utf-8"))
    return {name: constants[place] for name, place in places.items()}


def whole(written: Written) -> bytes:
    """Return the model with all its weights."""
    model: bytes = _with_initialisers(written, set()).SerializeToString()
    return model


def size_bytes(written: Written) -> int:
    """Return how much memory the initialisers take."""
    return sum(tensor.nbytes for tensor in written.initialisers.values())


def _with_initialisers(written: Written, outside: set[str]) -> ModelProto:
    model = ModelProto()
    model.CopyFrom(written.model)
    model.graph.initializer.extend(
        _external(name, tensor) if name in outside else _raw(name, tensor)
        for name, tensor in written.initialisers.items()
    )
    return model


def _raw(name: str, tensor: torch.Tensor) -> TensorProto:
    values = tensor.detach().contiguous()
    raw = values.reshape(-1).view(torch.uint8).numpy().tobytes() if values.numel() else b""
    return helper.make_tensor(name, dtype_of(tensor.dtype), list(tensor.shape), raw, raw=True)


def _external(name: str, tensor: torch.Tensor) -> TensorProto:
    made = TensorProto(name=name, data_type=dtype_of(tensor.dtype), dims=list(tensor.shape))
    made.data_location = TensorProto.EXTERNAL
    for key, value in (("location", BORROWED), ("offset", "0"), ("length", str(tensor.nbytes))):
        made.external_data.add(key=key, value=value)
    return made


OPSET = 20
IR_VERSION = 10
LARGEST_FOLDED = 1 << 24
"""Elements of a value that is computed here because it depends on weights only; larger ones are left to the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A model and the values of its initialisers, which are not in it."""

    model: ModelProto
    initialisers: Mapping[str, torch.Tensor]
    inputs: Sequence[str]
    outputs: Sequence[str]


def to_onnx(graph: Graph, constants: Mapping[Reference, torch.Tensor]) -> Written:
    """Write `graph`, whose outputs are all tensors, as ONNX. Weights become initialisers.

    Raises TuneError for an operator, an argument or a dtype that cannot be written.
    """
    writer = _Writer(Draft())
    module = annotated(graph)
    placeholders = module.graph.find_nodes(op="placeholder")
    for place, node in enumerate(placeholders):
        writer.take(node, name_of(place), constants.get(place))
    outputs = writer.run(module)
    return writer.finish([node for place, node in enumerate(placeholders) if not graph.inputs[place].constant], outputs)


def name_of(place: Reference) -> str:
    """Return the name that a variable input of the graph has in the model, if anything reads it."""
    return f"input_{place}"


class _Writer:
    """Goes through an annotated module, node by node."""

    def __init__(self, draft: Draft, values: dict[fx.Node, Any] | None = None) -> None:
        self._draft = draft
        self._values: dict[fx.Node, Any] = values or {}

    def take(self, node: fx.Node, name: str, known: torch.Tensor | None) -> None:
        """Enter an input: a name of its own, or an initialiser."""
        example = node.meta["val"]
        dtype_of(example.dtype)
        name = name if known is None else self._draft.constant(known)
        self._values[node] = Value(name, example.dtype, tuple(example.shape), known)

    def run(self, module: fx.GraphModule) -> list[Any]:
        """Write every node; return the outputs' values."""
        for node in module.graph.nodes:
            if node.op == "call_function":
                self._values[node] = self._written(node)
            elif node.op == "get_attr":  # a scalar of a decomposition
                tensor = getattr(module, str(node.target))
                self._values[node] = Value(self._draft.constant(tensor), tensor.dtype, tuple(tensor.shape), tensor)
        outputs = module.graph.output_node().args[0]
        listed = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return [self._values[node] if isinstance(node, fx.Node) else None for node in listed]

    def finish(self, inputs: Sequence[fx.Node], outputs: Sequence[Any]) -> Written:
        """Return the model: outputs get names of their own, initialisers that nothing reads are dropped."""
        draft = self._draft
        names = [draft.add("Identity", self._readable(value).name) for value in outputs]
        read = {name for node in draft.nodes for name in node.input}
        kept = {name: tensor for name, tensor in draft.initialisers.items() if name in read}
        taken = [self._values[node] for node in inputs]
        ended = [Value(name, value.dtype, value.shape) for name, value in zip(names, outputs, strict=True)]
        graph = helper.make_graph(draft.nodes, "graph", [*map(_info, taken)], [*map(_info, ended)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        return Written(model=model, initialisers=kept, inputs=[value.name for value in taken], outputs=names)

    def _written(self, node: fx.Node) -> Any:
        if node.target is operator.getitem:
            source, place = node.args
            assert isinstance(source, fx.Node)
            return self._values[source][place]
        arguments, keywords = self._given(node.args), self._given(node.kwargs)
        folded = self._folded(node, arguments, keywords)
        if folded is not None:
            return folded
        converter = converter_of(_name(node.target))
        if converter is not None:
            return self._converted(converter, node, arguments, keywords)
        return self._in_parts(node, arguments, keywords)

    def _converted(self, converter: Converter, node: fx.Node, arguments: Any, keywords: Any) -> Any:
        specs = _specs(node)
        self._draft.out = specs
        named = _named(node.target, arguments, keywords)
        if "name" in inspect.signature(converter).parameters:
            named["name"] = _name(node.target).rpartition("::")[2].partition(".")[0]
        for value in torch.utils._pytree.tree_leaves(named):
            if isinstance(value, Value):
                self._readable(value)
        try:
            inspect.signature(converter).bind(self._draft, **named)
        except TypeError as error:
            raise refuse(f"operator {_name(node.target)} with these arguments ({error})") from error
        names = converter(self._draft, **named)
        if isinstance(names, str):
            names = [names]
        made = [replace(spec, name=name) for name, spec in zip(names, specs, strict=False)]
        made += [Value("", spec.dtype, spec.shape) for spec in specs[len(made) :]]
        return made if isinstance(node.meta["val"], (list, tuple)) else made[0]

    def _in_parts(self, node: fx.Node, arguments: Any, keywords: Any) -> Any:
        """Write an operator that has no converter by its decomposition."""
        module = decomposed(node.target, arguments, keywords)
        if module is None:
            raise refuse(f"operator {_name(node.target)}")
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves((arguments, keywords)) if isinstance(leaf, Value)]
        inner = _Writer(self._draft, dict(zip(module.graph.find_nodes(op="placeholder"), leaves, strict=True)))
        outputs = inner.run(module)
        return outputs if isinstance(node.meta["val"], (list, tuple)) else outputs[0]

    def _folded(self, node: fx.Node, arguments: Any, keywords: Any) -> Any:
        """Compute what does not depend on the graph's variable inputs: tables of positions, masks, folded weights."""
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves((arguments, keywords)) if isinstance(leaf, Value)]
        name = base_name(_name(node.target))
        fills = is_fill(name)
        if not fills and (any(leaf.known is None for leaf in leaves) or name.startswith("fake_quantize")):
            return None
        if torch.Tag.nondeterministic_seeded in node.target.tags:  # type: ignore[union-attr]
            raise refuse(f"operator {_name(node.target)} (it draws random numbers)")
        if any(spec.shape and torch.Size(spec.shape).numel() > LARGEST_FOLDED for spec in _specs(node)):
            return None
        given, named = torch.utils._pytree.tree_map_only(Value, _values_of, (arguments, keywords))
        with torch.no_grad():
            made = node.target(*given, **named)  # type: ignore[operator]
        if isinstance(made, torch.Tensor):
            return self._constant(made)
        return [self._constant(tensor) for tensor in made]

    def _constant(self, tensor: torch.Tensor) -> Value:
        return Value(self._draft.constant(tensor), tensor.dtype, tuple(tensor.shape), tensor)

    def _given(self, arguments: Any) -> Any:
        return _plain(fx.node.map_arg(arguments, lambda node: self._values[node]))

    @staticmethod
    def _readable(value: Any) -> Value:
        if not isinstance(value, Value) or not value.name:
            raise refuse("a result of an operator that is only computed for training")
        return value


def _values_of(value: Value) -> torch.Tensor:
    return torch.empty(value.shape, dtype=value.dtype) if value.known is None else value.known


def _plain(arguments: Any) -> Any:
    """Return ordinary containers for those of fx, which refuse to be changed by decompositions."""
    if isinstance(arguments, (list, tuple)):
        return [_plain(item) for item in arguments]
    if isinstance(arguments, dict):
        return {name: _plain(item) for name, item in arguments.items()}
    return arguments


def _specs(node: fx.Node) -> list[Value]:
    value = node.meta["val"]
    if isinstance(value, torch.Tensor):
        value = [value]
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, torch.Tensor) for item in value):
        raise refuse(f"the result of {_name(node.target)}")
    return [Value("", item.dtype, tuple(item.shape)) for item in value]


def _named(target: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, without those that have their default."""
    schema = target._schema.arguments
    names = [argument.name for argument in schema]
    named = {**dict(zip(names, arguments, strict=False)), **keywords}
    skipped = {argument.name for argument in schema if str(argument.real_type).find("MemoryFormat") >= 0}
    return {name: value for name, value in named.items() if name not in skipped}


def _name(target: Any) -> str:
    if not isinstance(target, torch._ops.OpOverload):
        raise TuneError(
            f"the graph holds {target}, which is no operator of PyTorch; leave it to PyTorch's own engines."
        )
    schema = target._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def _info(value: Value) -> Any:
    return helper.make_tensor_value_info(value.name, dtype_of(value.dtype), list(value.shape))


def decomposed(target: Any, arguments: Sequence[Any], keywords: dict[str, Any]) -> fx.GraphModule | None:
    """Return the operator as a module of simpler ones, of its tensor arguments in the order in which they appear.

    `arguments` hold `Value`s where tensors go. None when PyTorch has no decomposition of it.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    function = _rule_of(target)
    if function is None:
        return None
    leaves, structure = torch.utils._pytree.tree_flatten((list(arguments), keywords))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Value)]
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = [torch.empty(leaves[place].shape, dtype=leaves[place].dtype) for place in places]

    def call(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        given, named = torch.utils._pytree.tree_unflatten(filled, structure)
        return function(*given, **named)

    try:
        with torch.no_grad():
            module: fx.GraphModule = make_fx(call, tracing_mode="real")(*fakes)
    except (NotImplementedError, RuntimeError, TypeError, ValueError):  # a rule for other arguments
        return None
    return None if any(node.target is target for node in module.graph.nodes) else module


def _rule_of(target: Any) -> Callable[..., Any] | None:
    from torch._decomp import core_aten_decompositions, decomposition_table

    rule = core_aten_decompositions().get(target) or decomposition_table.get(target)
    if rule is not None:
        return rule
    if isinstance(target, torch._ops.OpOverload) and target._can_decompose():
        return target.decompose
    return None
