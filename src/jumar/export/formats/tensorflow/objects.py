"""`object_names`: names of variables in a checkpoint of objects, from the graph that TensorFlow keeps with it.

The message (tensorflow/core/protobuf/trackable_object_graph.proto):
`TrackableObjectGraph { repeated TrackableObject nodes = 1; }`,
`TrackableObject { repeated ObjectReference children = 1; repeated SerializedTensor attributes = 2; }`,
`ObjectReference { node_id = 1; local_name = 2; }`,
`SerializedTensor { name = 1; full_name = 2; checkpoint_key = 3; }`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from jumar.export.formats.tensorflow.names import COUNTERS, GROUPS
from jumar.export.formats.tensorflow.wire import fields

_MOST_NODES = 1_000_000


@dataclass(slots=True)
class _Node:
    children: list[tuple[int, str]] = field(default_factory=list)
    keys: list[tuple[str, str]] = field(default_factory=list)
    """Key in the checkpoint and the variable's own name."""


def object_names(data: bytes) -> dict[str, str]:
    """Return by key the names of variables that are reached without passing an optimizer. Raises ValueError.

    A variable of the model may be stored under the optimizer, where that is the shorter way to it (Keras 3). A name is
    the variable's own (`head/kernel`) where these differ from each other, else the way through the objects.
    """
    nodes = [_node(value) for number, value in fields(data) if number == 1 and isinstance(value, bytes)]
    if not nodes or len(nodes) > _MOST_NODES:
        raise ValueError("its graph of objects is damaged")
    ways: dict[int, str] = {0: ""}
    waiting = deque([0])
    while waiting:
        at = waiting.popleft()
        for child, name in nodes[at].children:
            if child >= len(nodes):
                raise ValueError("its graph of objects is damaged")
            if child in ways or name in GROUPS or (at == 0 and name in COUNTERS):
                continue
            ways[child] = f"{ways[at]}/{name}" if ways[at] else name
            waiting.append(child)
    reached = {key: (way, own) for number, way in ways.items() for key, own in nodes[number].keys}
    own_names = [own for _, own in reached.values()]
    unique = all(own_names) and len(set(own_names)) == len(own_names)
    return {key: own if unique else way for key, (way, own) in reached.items()}


def _node(data: bytes) -> _Node:
    node = _Node()
    for number, value in fields(data):
        if not isinstance(value, bytes):
            continue
        inner = dict(fields(value))
        if number == 1:
            child, name = inner.get(1, 0), inner.get(2, b"")
            if isinstance(child, int) and isinstance(name, bytes):
                node.children.append((child, name.decode("utf-8")))
        elif number == 2:
            full, key = inner.get(2, b""), inner.get(3, b"")
            if isinstance(full, bytes) and isinstance(key, bytes):
                node.keys.append((key.decode("utf-8"), full.decode("utf-8")))
    return node
