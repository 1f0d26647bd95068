"""The graph of a training's forward part, with values for its variables: of a session, or of a model of Keras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jumar.tfadapter.bridge.watch import DATA

_APPLY = ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply", "Assign")


def _forward(targets: Sequence[Any]) -> list[Any]:
    """Return the fetched numbers that no change of a parameter is behind; without any, a loss of the graph."""
    import tensorflow as tf

    found = [tensor for one in targets for tensor in one.outputs[:1] if tensor.dtype.is_floating and not _changes(one)]
    if not found and targets:
        losses = targets[0].graph.get_collection(tf.compat.v1.GraphKeys.LOSSES)
        found = [tensor for tensor in losses if not _changes(tensor.op)][:1]
    if not found:
        raise ValueError("the step fetches no number of its forward pass (a loss)")
    return found


def _changes(operation: Any) -> bool:
    """Tell whether an operator, or one behind it, changes a parameter, or is a gradient."""
    seen, waiting = set(), [operation]
    while waiting:
        one = waiting.pop()
        if one.name in seen:
            continue
        seen.add(one.name)
        if one.type.startswith(_APPLY) or one.type.endswith("Grad"):
            return True
        waiting += [tensor.op for tensor in one.inputs]
    return False


def of_session(session: Any, targets: Sequence[Any], feed: Mapping[Any, Any]) -> tuple[Any, list[str], list[str]]:
    """Return the graph before a step's loss with its variables' values, and the names of its inputs and outputs.

    `feed` are the arrays of the step: the graph gets their shapes. Raises ValueError where the step has no loss.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    outputs = _forward(targets)
    nodes = [one.op.name for one in outputs]
    frozen = v1.graph_util.convert_variables_to_constants(session, session.graph.as_graph_def(), nodes)
    shapes = {_name(key): value.shape for key, value in feed.items() if hasattr(value, "shape")}
    given: dict[str, Any] = {}
    kept = _before(frozen, nodes)
    with tf.Graph().as_default() as graph:
        for node in kept.node:
            if node.op.startswith("Placeholder") or node.op in DATA:
                for tensor in session.graph.get_operation_by_name(node.name).outputs:
                    name = tensor.name.removesuffix(":0").replace(":", "_")
                    given[tensor.name] = v1.placeholder(tensor.dtype, shapes.get(tensor.name, tensor.shape), name)
        for place in reversed([place for place, node in enumerate(kept.node) if f"{node.name}:0" in given]):
            del kept.node[place]
        tf.import_graph_def(kept, {name: given[name] for name in given if _is_read(kept, name)}, name="")
        definition = v1.graph_util.extract_sub_graph(graph.as_graph_def(), nodes)
    left = {node.name for node in definition.node}
    return definition, [one.name for one in given.values() if one.op.name in left], [one.name for one in outputs]


def _before(definition: Any, nodes: Sequence[str]) -> Any:
    """Return the part of a graph that some nodes need; nothing of what brings data."""
    by_name = {node.name: node for node in definition.node}
    wanted, waiting = set(), list(nodes)
    while waiting:
        name = waiting.pop().removeprefix("^").partition(":")[0]
        if name not in wanted:
            wanted.add(name)
            waiting += [] if by_name[name].op in DATA else by_name[name].input
    kept = type(definition)()
    kept.CopyFrom(definition)
    del kept.node[:]
    kept.node.extend(node for node in definition.node if node.name in wanted)
    return kept


def _is_read(definition: Any, name: str) -> bool:
    """Tell whether a node reads a tensor: `one` and `one:0` are the same."""
    return any(name in (one, f"{one}:0") for node in definition.node for one in node.input)


def of_model(model: Any) -> tuple[Any, list[str], list[str]]:
    """Return the graph of a model of Keras in evaluation, and the names of its inputs and outputs."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    given = [tf.TensorSpec(one.shape, one.dtype, f"input_{place}") for place, one in enumerate(model.inputs)]
    call = tf.function(lambda *tensors: model(tensors[0] if len(tensors) == 1 else list(tensors), training=False))
    frozen = convert_variables_to_constants_v2(call.get_concrete_function(*given))
    inputs, outputs = ([one.name for one in side] for side in (frozen.inputs, frozen.outputs))
    return frozen.graph.as_graph_def(), inputs, outputs


def _name(key: Any) -> str:
    return key if isinstance(key, str) else str(key.name)
