"""Run by an interpreter that has TensorFlow and tf2onnx: gives a model as ONNX, and TensorFlow's own outputs.

It imports nothing of Jumar, which that interpreter need not have. Standard input has one JSON line with the model's
kind and path; the answer names its inputs. Each further line names files for one set of inputs, of fixed sizes: the
values to read (.npz), where the ONNX file goes, and where TensorFlow's outputs for them go (.npz).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OPSET = 17
SIGNATURE = "serving_default"
NOT_DATA = ("Placeholder", "PlaceholderV2", "Assert", "NoOp")


class RefusedError(Exception):
    """The model cannot be converted. The message goes on where `MODEL` ends."""


@dataclass
class Model:
    """A frozen graph, and its inputs and outputs: what they are called, and the names of their tensors."""

    definition: Any
    inputs: Sequence[tuple[str, str]]
    outputs: Sequence[tuple[str, str]]


def main() -> None:
    """Convert what standard input names."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what TensorFlow and the model print is no answer
    for line in sys.stdin:
        try:
            asked = json.loads(line)
            if "kind" in asked:
                versions = imported()
                model = LOADERS[asked["kind"]](asked["path"])
                answer = {"inputs": list(described(model)), "versions": versions}
            else:
                answer = {"outputs": converted(model, asked)}
        except RefusedError as error:
            answer = {"refused": str(error)}
        except Exception as error:  # noqa: BLE001 - whatever TensorFlow or tf2onnx raises is told
            answer = {"failed": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def imported() -> dict[str, str]:
    """Import what is needed and return the versions."""
    for name in ("tensorflow", "tf2onnx"):
        try:
            __import__(name)
        except ImportError as error:
            raise RefusedError(f"needs {name}, which cannot be imported ({error})") from error
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    return {"tensorflow": tf.__version__, "tf2onnx": sys.modules["tf2onnx"].__version__}


def of_graph(path: str) -> Model:
    """Return a frozen GraphDef: its inputs are the placeholders, its outputs what no node reads."""
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef()
    with open(path, "rb") as file:  # noqa: PTH123
        definition.ParseFromString(file.read())
    take_defaults(definition)
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(definition, name="")
    operations = graph.get_operations()
    givers = [one for one in operations if one.type in NOT_DATA[:2]]
    reached = behind(givers)
    tensors = [
        tensor
        for one in operations
        if one in reached and one.type not in NOT_DATA and not any(tensor.consumers() for tensor in one.outputs)
        for tensor in one.outputs
        if tensor.dtype not in (tf.string, tf.resource, tf.variant)
    ]
    read = in_front([tensor.op for tensor in tensors])
    inputs = [(one.name, one.outputs[0].name) for one in givers if one in read]
    if not inputs:
        raise RefusedError(
            "has no output that is computed from a Placeholder, so that it takes no inputs; freeze it with its inputs"
        )
    return Model(definition, inputs, [(tensor.name.removesuffix(":0"), tensor.name) for tensor in tensors])


def take_defaults(definition: Any) -> None:
    """Make each PlaceholderWithDefault its default, as TensorFlow computes it where it is not fed."""
    for node in definition.node:
        if node.op == "PlaceholderWithDefault":
            node.op = "Identity"
            node.attr["T"].CopyFrom(node.attr["dtype"])
            del node.attr["dtype"], node.attr["shape"]


def behind(operations: Sequence[Any]) -> set[Any]:
    """Return operations and all that are computed from them."""
    found, waiting = set(operations), list(operations)
    while waiting:
        for tensor in waiting.pop().outputs:
            new = [one for one in tensor.consumers() if one not in found]
            found.update(new)
            waiting += new
    return found


def in_front(operations: Sequence[Any]) -> set[Any]:
    """Return operations and all that they are computed from."""
    found, waiting = set(operations), list(operations)
    while waiting:
        new = [tensor.op for tensor in waiting.pop().inputs if tensor.op not in found]
        found.update(new)
        waiting += new
    return found


def of_saved_model(path: str) -> Model:
    """Return the serving signature of a SavedModel."""
    import tensorflow as tf

    loaded = tf.saved_model.load(path)
    signatures = dict(loaded.signatures)
    name = SIGNATURE if SIGNATURE in signatures else next(iter(signatures), "")
    if not signatures or (len(signatures) > 1 and name != SIGNATURE):
        found = ", ".join(sorted(signatures)) or "none"
        raise RefusedError(f"has no signature {SIGNATURE} (its signatures: {found}); save it with signatures=")
    function = signatures[name]
    keys = list(function._arg_keywords)
    given = {tensor.name: key for key, tensor in zip(keys, function.inputs, strict=False)}
    outputs = sorted(function.structured_outputs)
    return of_function(function, [given.get(name, name) for name in tensor_names(function.inputs)], outputs)


def of_keras(path: str) -> Model:
    """Return a model of Keras in evaluation."""
    import tensorflow as tf

    model = tf.keras.models.load_model(path, compile=False)
    if not getattr(model, "inputs", None):
        raise RefusedError("has no inputs of known shape; call the model once, or build it, before it is saved")
    names = [one.name.partition(":")[0] for one in model.inputs]
    given = [tf.TensorSpec(one.shape, one.dtype) for one in model.inputs]
    several = model.inputs if len(given) > 1 else model.inputs[0]
    nesting = model.input if hasattr(model, "input") else several  # Keras 3 lacks it for old files
    whole = tf.nest.pack_sequence_as(nesting, given)
    call = tf.function(lambda tensors: model(tensors, training=False)).get_concrete_function(whole)
    num_outputs = len(tf.nest.flatten(call.structured_outputs))
    outputs = list(getattr(model, "output_names", []))
    if len(outputs) != num_outputs:
        outputs = [f"output_{place}" for place in range(num_outputs)]
    return of_function(call, names, outputs)


def of_function(function: Any, inputs: Sequence[str], outputs: Sequence[str]) -> Model:
    """Return a function with constants in the place of its variables."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    named = dict(zip(tensor_names(function.inputs), inputs, strict=False))
    frozen = convert_variables_to_constants_v2(function, lower_control_flow=False)
    graph = frozen.graph
    tensors: dict[str, str] = {}
    for name, tensor in zip(outputs, frozen.outputs, strict=True):
        tensors.setdefault(tensor.name, name)
    read = in_front([one.op for one in frozen.outputs])
    given = [(named.get(one.name, one.name), one.name) for one in frozen.inputs if one.op in read]
    if not given:
        raise RefusedError("has no output that is computed from its inputs; save it with outputs that are")
    return Model(graph.as_graph_def(), given, [(name, tensor) for tensor, name in tensors.items()])


def tensor_names(tensors: Sequence[Any]) -> list[str]:
    """Return what tensors are called."""
    return [one.name for one in tensors]


LOADERS = {"graph": of_graph, "saved_model": of_saved_model, "keras": of_keras}


def described(model: Model) -> Iterator[dict[str, Any]]:
    """Yield each input: its name, its dtype as NumPy calls it, its sizes (null: any; no list: any rank)."""
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(model.definition, name="")
    for name, tensor in model.inputs:
        found = graph.get_tensor_by_name(tensor)
        sizes = found.shape.as_list() if found.shape.rank is not None else None
        yield {"name": name, "dtype": found.dtype.name, "sizes": sizes}


def converted(model: Model, asked: Mapping[str, str]) -> list[str]:
    """Write the model for one set of inputs, and what TensorFlow computes of them; return the outputs' names."""
    import numpy as np

    with np.load(asked["inputs"]) as file:
        values = [file[str(place)] for place in range(len(model.inputs))]
    definition = sized(model, [value.shape for value in values])
    write_onnx(definition, model, asked["onnx"])
    first, second = computed(definition, model, values), computed(definition, model, values)
    for (name, _), one, other in zip(model.outputs, first, second, strict=True):
        if one.shape != other.shape or not close(one, other):
            raise RefusedError(
                f"gives other values of {name} in each call: it draws random numbers, or training is on; give it in "
                "evaluation"
            )
    np.savez(asked["outputs"], **{str(place): value for place, value in enumerate(first)})
    return [name for name, _ in model.outputs]


def close(one: Any, other: Any) -> bool:
    """Tell whether two calls gave the same but for the order of sums."""
    import numpy as np

    if one.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    return bool(np.allclose(one, other, rtol=1e-3, atol=1e-3 * float(np.max(np.abs(one), initial=0)), equal_nan=True))


def sized(model: Model, shapes: Sequence[Sequence[int]]) -> Any:
    """Return the graph with these sizes of its inputs."""
    import tensorflow as tf

    definition = type(model.definition)()
    definition.CopyFrom(model.definition)
    given = dict(zip((tensor.partition(":")[0] for _, tensor in model.inputs), shapes, strict=True))
    for node in definition.node:
        node.attr.pop("_output_shapes", None)
        if node.name in given:
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(given[node.name]).as_proto())
    return definition


def computed(definition: Any, model: Model, values: Sequence[Any]) -> list[Any]:
    """Return TensorFlow's outputs."""
    import numpy as np
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(definition, name="")
    feed = dict(zip((tensor for _, tensor in model.inputs), values, strict=True))
    with tf.compat.v1.Session(graph=graph) as session:
        return [np.asarray(one) for one in session.run([tensor for _, tensor in model.outputs], feed)]


def write_onnx(definition: Any, model: Model, path: str) -> None:
    """Convert, and refuse what still holds operators of TensorFlow's."""
    import onnx
    import tf2onnx

    names = [name for name, _ in (*model.inputs, *model.outputs)]
    renamed = (
        {tensor: name for name, tensor in (*model.inputs, *model.outputs)} if len(set(names)) == len(names) else {}
    )
    made, _ = tf2onnx.convert.from_graph_def(
        definition,
        input_names=[tensor for _, tensor in model.inputs],
        output_names=[tensor for _, tensor in model.outputs],
        opset=OPSET,
        tensors_to_rename=renamed,
    )
    if left := sorted(set(unknown(made.graph, onnx))):
        raise RefusedError(
            f"has operators that tf2onnx cannot write as ONNX: {', '.join(left)}; give the part of the model without "
            "them, or an ONNX file of another exporter"
        )
    onnx.save(made, path)


def unknown(graph: Any, onnx: Any) -> Iterator[str]:
    """Yield the operators of a graph, and of those within its nodes, that ONNX does not have."""
    for node in graph.node:
        if node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type, OPSET):
            yield node.op_type
        for one in node.attribute:
            if one.type == onnx.AttributeProto.GRAPH:
                yield from unknown(one.g, onnx)


if __name__ == "__main__":
    main()
