"""Operators of a graph: what is fetched, what is behind it, what trains, what runs once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jumar.tfadapter.bridge.state import STATE

_TRAINING = ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")
"""How the names of operators begin that change a parameter by its gradient."""
DATA = frozenset({"IteratorGetNext", "QueueDequeueManyV2", "QueueDequeueV2"})
"""Operators that bring data."""
_OF_LOOPS = frozenset({"Enter", "NextIteration", "RefEnter", "RefSwitch", "Switch"})
"""Operators whose outputs come several times in a run, or not at all."""
_ENDS = frozenset({"Exit", "Merge", "RefExit", "RefMerge"})
"""Operators with which a loop or a condition ends: what reads them runs once."""


def trains(targets: list[Any]) -> bool:
    """Tell whether running targets applies gradients."""
    return any(one.type.startswith(_TRAINING) for one in behind(targets))


def operations_of(graph: Any, fetches: Any) -> Iterator[Any]:
    """Yield the operators that fetches ask for, of any nesting."""
    import tensorflow as tf

    for one in _leaves(fetches):
        try:
            element = graph.as_graph_element(one, allow_tensor=True, allow_operation=True)
        except (TypeError, ValueError, KeyError):
            continue
        yield element if isinstance(element, tf.Operation) else element.op


def _leaves(fetches: Any) -> Iterator[Any]:
    """Yield what is fetched. TensorFlow's own `nest` sorts the keys of a dict, which a session does not ask for."""
    if isinstance(fetches, dict):
        fetches = list(fetches.values())
    if isinstance(fetches, (list, tuple)):
        for one in fetches:
            yield from _leaves(one)
    elif fetches is not None:
        yield fetches


def behind(targets: list[Any]) -> list[Any]:
    """Return the operators that targets need, in the order in which the graph was made."""
    found, waiting = {}, list(targets)
    while waiting:
        one = waiting.pop()
        if one.name not in found:
            found[one.name] = one
            waiting += [tensor.op for tensor in one.inputs]
            waiting += one.control_inputs
    return sorted(found.values(), key=lambda one: one._id if hasattr(one, "_id") else 0)


def seen(targets: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the operators behind targets, and those of their outputs that have one value in each run, by name."""
    operations = behind(targets)
    uncertain = _uncertain(operations)
    if uncertain:
        STATE.not_shown["operators inside loops and conditions of a graph, in dumps and overflow"] = None
    tensors = {
        tensor.name: tensor
        for one in operations
        for tensor in one.outputs
        if one.name not in uncertain
        and tensor.dtype.is_floating
        and not tensor.dtype._is_ref_dtype
        and one.graph.is_fetchable(tensor)
    }
    return operations, tensors


def _uncertain(operations: list[Any]) -> set[str]:
    """Return the names of operators that run several times in a run, or may not run: in loops, behind a condition."""
    readers: dict[str, list[Any]] = {}
    for one in operations:
        for before in [*(tensor.op for tensor in one.inputs), *one.control_inputs]:
            readers.setdefault(before.name, []).append(one)
    waiting = [one for one in operations if one.type in _OF_LOOPS or _is_inside(one)]
    found = {one.name for one in waiting}
    while waiting:
        for reader in readers.get(waiting.pop().name, ()):
            if reader.name not in found and reader.type not in _ENDS:
                found.add(reader.name)
                waiting.append(reader)
    return found


def _is_inside(operation: Any) -> bool:
    """Tell whether an operator is in a loop or a condition; the end of a loop belongs to what is around the loop."""
    context = operation._get_control_flow_context()
    if operation.type in ("Exit", "RefExit") and context is not None:
        context = context.outer_context
    return context is not None
