"""Between `torch.fx` graphs and `Graph`, and what the values of a graph look like."""

from __future__ import annotations

import logging
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from jumar.base.findings import Json
from jumar.tune.graph.graph import GETITEM, Graph, Node, post_order
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import TensorSpec


def with_values(graph: Graph) -> Graph:
    """Return `graph` with the spec of every node's value. Raises TuneError when an operator refuses its inputs."""
    module = annotated(graph)
    nodes = [node for node in module.graph.nodes if node.op == "call_function"]
    return replace(graph, values=[spec_of(node.meta["val"]) for node in nodes])


def annotated(graph: Graph) -> fx.GraphModule:
    """Return `graph` as a module of which every node has the (fake) tensor it makes in `meta["val"]`.

    Raises TuneError when an operator refuses its inputs.
    """
    module = to_fx(graph)
    with fake_tensors():
        inputs = [
            torch.empty_strided(spec.shape, spec.stride, dtype=getattr(torch, spec.dtype)) for spec in graph.inputs
        ]
        try:
            _Annotate(module).run(*inputs)
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            raise TuneError(f"the graph does not fit its inputs: {str(error).splitlines()[0]}.") from error
    return module


@contextmanager
def fake_tensors() -> Iterator[None]:
    """Make tensors that have no memory. What an operator refuses is raised, and not written to PyTorch's log as well.

    Sizes are never symbolic: an operator whose output's shape depends on values raises.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        with FakeTensorMode(), torch.no_grad():
            yield
    finally:
        log.disabled = before


def spec_of(value: Any) -> TensorSpec | None:
    """Return the spec of a tensor; None for anything else."""
    if not isinstance(value, torch.Tensor):
        return None
    return TensorSpec(
        shape=tuple(value.shape), dtype=str(value.dtype).removeprefix("torch."), stride=tuple(value.stride())
    )


class _Annotate(fx.Interpreter):
    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op != "output":
            n.meta["val"] = list(value) if n.target is not operator.getitem and isinstance(value, tuple) else value
        return value


_NAMED = {
    torch.dtype: "dtype", torch.device: "device", torch.layout: "layout", torch.memory_format: "memory_format",
}  # fmt: skip


def from_fx(module: fx.GraphModule, constants: Iterable[int] = ()) -> tuple[Graph, dict[int, torch.Tensor]]:
    """Return the graph of a module of aten operators, and the values of the tensors it holds itself.

    `constants` are the places of placeholders whose values never change. Tensors that the module holds
    (`get_attr`) become further constant inputs; they are returned by their place. Placeholders must carry their
    example value in `meta["val"]`, as `torch.export` and AOTAutograd leave them.

    Raises TuneError for a shape that is not static, control flow, and operators that write to what is no input.
    """
    return _Reader(module, set(constants)).read()


def to_fx(graph: Graph) -> fx.GraphModule:
    """Return a module that computes `graph`: one placeholder an input, a tuple of the outputs.

    Placeholders and nodes carry no `meta`; run fake tensors through it where that is needed.
    """
    made = fx.Graph()
    values = [made.placeholder(f"input_{place}") for place in range(len(graph.inputs))]
    for node in graph.nodes:
        arguments = tuple(_native(argument, values) for argument in node.arguments)
        keywords = {name: _native(argument, values) for name, argument in node.keywords.items()}
        target = operator.getitem if node.operator == GETITEM else overload(node.operator)
        values.append(made.call_function(target, arguments, keywords))
    made.output(tuple(None if value is None else values[value] for value in graph.outputs))
    module = fx.GraphModule(torch.nn.Module(), made)
    module.graph.lint()
    return module


class _Reader:
    def __init__(self, module: fx.GraphModule, constants: set[int]) -> None:
        self._module = module
        self._inputs: dict[fx.Node, TensorSpec] = {}
        self._held: dict[int, torch.Tensor] = {}
        for node in module.graph.find_nodes(op="placeholder"):
            self._inputs[node] = _spec(node, _example(node), constant=len(self._inputs) in constants)
        for node in module.graph.find_nodes(op="get_attr"):
            value = _attribute(module, str(node.target))
            self._held[len(self._inputs)] = value
            self._inputs[node] = _spec(node, value, constant=True)

    def read(self) -> tuple[Graph, dict[int, torch.Tensor]]:
        outputs = _flat(self._module.graph.output_node().args[0])
        writers = self._in_order([node for node in self._module.graph.nodes if self._writes(node)], outputs)
        # What is written is computed first: the first of two writes must not change what the second one reads.
        sources = [node.args[1] for node in writers]
        roots = [node for node in [*outputs, *sources, *writers] if isinstance(node, fx.Node)]
        order = post_order(roots, self._inputs, lambda node: node.all_input_nodes)
        numbers = {node: number for number, node in enumerate([*self._inputs, *order])}
        graph = Graph(
            inputs=list(self._inputs.values()),
            nodes=[self._node(node, numbers) for node in order],
            outputs=[None if node is None else numbers[node] for node in outputs],
            effects=[numbers[node] for node in writers],
            values=[_value_spec(node) for node in order],
        )
        return graph, self._held

    def _in_order(self, writers: list[fx.Node], outputs: Sequence[fx.Node | None]) -> list[fx.Node]:
        """Return the writes in the order in which the outputs first need what they write to.

        Tracers write them down in orders of their own; each writes to another input, so that none matters.
        """
        needed = post_order(
            [node for node in outputs if node is not None], self._inputs, lambda node: node.all_input_nodes
        )
        read = dict.fromkeys(source for node in needed for source in node.all_input_nodes if source in self._inputs)
        ranks = {node: rank for rank, node in enumerate(read)}
        return sorted(writers, key=lambda node: ranks.get(node.args[0], len(ranks)))  # type: ignore[arg-type]

    def _writes(self, node: fx.Node) -> bool:
        """Tell whether a node writes to an input. Raises TuneError for one that writes to something else."""
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            return False
        if not node.target._schema.is_mutable:
            return False
        written = node.args[0] if node.args else None
        if node.target is torch.ops.aten.copy_.default and written in self._inputs:
            return True
        raise TuneError(
            f"{node.target} writes to a tensor inside the graph, which is not tuned; "
            "write the model without in-place operators there."
        )

    @staticmethod
    def _node(node: fx.Node, numbers: Mapping[fx.Node, int]) -> Node:
        if node.target is operator.getitem:
            name = GETITEM
        elif isinstance(node.target, torch._ops.OpOverload):
            name = _name(node.target)
        else:
            raise TuneError(
                f"the graph holds {node.target}, which is no operator (control flow, or a call of Python); "
                "it is left untuned."
            )
        return Node(
            operator=name,
            arguments=[_plain(argument, numbers) for argument in node.args],
            keywords={word: _plain(argument, numbers) for word, argument in node.kwargs.items()},
        )


def _name(target: torch._ops.OpOverload) -> str:
    """Return `aten::relu`, `aten::add.Tensor`."""
    name: str = target._schema.name
    return f"{name}.{target._schema.overload_name}" if target._schema.overload_name else name


def _flat(outputs: Any) -> list[fx.Node | None]:
    if outputs is None or isinstance(outputs, fx.Node):
        return [outputs]
    if isinstance(outputs, (list, tuple)):
        return [node for output in outputs for node in _flat(output)]
    raise TuneError(f"the graph returns {type(outputs).__name__}, and only tensors are tuned; return tensors.")


def _example(node: fx.Node) -> Any:
    value = node.meta.get("val", node.meta.get("example_value"))
    if not isinstance(value, torch.Tensor):
        raise TuneError(
            f"input {node.name} of the graph is {type(value).__name__} and must be a tensor of static shape; "
            "compile with dynamic=False."
        )
    return value


def _attribute(module: fx.GraphModule, name: str) -> torch.Tensor:
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part)
    if not isinstance(value, torch.Tensor):
        raise TuneError(
            f"the graph holds {name}, a {type(value).__name__} (control flow, or gradients inside of the model); "
            "it is left untuned."
        )
    return value


def _spec(node: fx.Node, value: torch.Tensor, *, constant: bool = False) -> TensorSpec:
    sizes = (*value.shape, *(value.stride() if value.layout is torch.strided else ()))
    if not all(type(size) is int for size in sizes):
        raise TuneError(
            f"{node.name} has the dynamic shape {list(value.shape)} and must have a static one; "
            "tune each size by itself (dynamic=False)."
        )
    return TensorSpec(
        shape=tuple(value.shape),
        dtype=str(value.dtype).removeprefix("torch."),
        stride=tuple(value.stride()),
        constant=constant,
    )


def _value_spec(node: fx.Node) -> TensorSpec | None:
    value = node.meta.get("val")
    return _spec(node, value) if isinstance(value, torch.Tensor) else None


def _plain(argument: Any, numbers: Mapping[fx.Node, int]) -> Json:
    if isinstance(argument, fx.Node):
        return {"value": numbers[argument]}
    if isinstance(argument, (list, tuple)):
        return [_plain(item, numbers) for item in argument]
    if argument is None or isinstance(argument, (bool, int, str)):
        return argument
    if isinstance(argument, float):
        return argument if math.isfinite(argument) else {"float": str(argument)}
    if isinstance(argument, complex):
        return {"complex": [argument.real, argument.imag]}
    for kind, name in _NAMED.items():
        if isinstance(argument, kind):
            return {name: str(argument).removeprefix("torch.")}
    raise TuneError(
        f"an operator of the graph has the argument {argument!r} ({type(argument).__name__}), which has no fixed "
        "value; shapes must be static (dynamic=False)."
    )


def _native(argument: Json, values: Sequence[Any]) -> Any:
    if isinstance(argument, list):
        return [_native(item, values) for item in argument]
    if not isinstance(argument, dict):
        return argument
    ((kind, value),) = argument.items()
    if kind == "value":
        return values[int(str(value))]
    if kind == "float":
        return float(str(value))
    if kind == "complex":
        assert isinstance(value, list)
        return complex(*map(float, map(str, value)))
    return torch.device(str(value)) if kind == "device" else getattr(torch, str(value))


def overload(name: str) -> torch._ops.OpOverload:
    """Return the operator called `aten::add.Tensor`. Raises TuneError when this PyTorch has none."""
    namespace, _, rest = name.rpartition("::")
    base, _, variant = rest.partition(".")
    found = getattr(getattr(torch.ops, namespace or "aten"), base, None)
    operator = getattr(found, variant or "default", None) if found is not None else None
    if operator is None:
        raise TuneError(f"{name} is not an operator of PyTorch {torch.__version__}; record again with this version.")
    assert isinstance(operator, torch._ops.OpOverload)
    return operator
