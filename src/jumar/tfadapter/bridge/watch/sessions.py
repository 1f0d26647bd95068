"""`Sessions`: sessions of a program: their options are checked, their runs counted, rounded and dumped."""

from __future__ import annotations

from typing import Any

import numpy as np

from jumar.tfadapter.bridge.dump import Call, Dumper
from jumar.tfadapter.bridge.rounding import MATRIX, PREFIX, RoundedGraph, Rounding, rounded_graph, rounding_of
from jumar.tfadapter.bridge.state import STATE
from jumar.tfadapter.bridge.watch.graphs import DATA, behind, operations_of, seen, trains
from jumar.tfadapter.bridge.watch.options import dumper_of, settings_of
from jumar.tfadapter.bridge.watch.steps import Steps

_Key = tuple[int, int, tuple[str, ...]]
"""A graph, its version, and what is fetched of it."""


class Sessions:
    """Stands around the methods of TensorFlow's sessions: each method here is given the original one first."""

    def __init__(self, steps: Steps) -> None:
        self.used_npu = False
        self.dumpers: list[Dumper] = []
        self._steps = steps
        self._of_session: dict[int, Dumper] = {}
        self._roundings: dict[int, Rounding] = {}
        self._graphs: dict[tuple[str, ...], str] = {}
        """What runs fetch -> the name of that graph in dumps: the adapter compiles each apart."""
        self._seen: dict[_Key, tuple[list[Any], dict[str, Any]]] = {}
        self._trains: dict[_Key, bool] = {}

    def made(self, original: Any, session: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
        """Make a session: check its options, and note how it rounds and what it dumps."""
        options = settings_of(config) if config is not None else []
        session._session = None  # what TensorFlow's own __init__ begins with: a refused session is let go of
        STATE.take(options)
        self.used_npu = self.used_npu or bool(options)
        original(session, target=target, graph=graph, config=config)
        self._roundings.pop(id(session), None)  # of a session that is gone and had the same number
        self._of_session.pop(id(session), None)
        given = {one.name: one.value for one in options}
        if (rounding := rounding_of(given)) is not None:
            self._roundings[id(session)] = rounding
        dumper = dumper_of(given)
        if dumper is not None:
            self._of_session[id(session)] = dumper
            self.dumpers.append(dumper)

    def run(self, original: Any, session: Any, fetches: Any, *arguments: Any, **named: Any) -> Any:
        """Run fetches: as the loop of the device, the rounding and the dumps want it; count a step that trains."""
        if not self._steps.is_watching:
            return original(session, fetches, *arguments, **named)
        rounded = rounded_graph(session.graph, self._roundings.get(id(session)))
        if rounded is not None:
            fetches = rounded.read(fetches)
        targets = list(operations_of(session.graph, fetches))
        for operation in targets:
            for _ in range(STATE.loops.get(operation.name, 1) - 1):
                original(session, operation, *arguments, **named)
                self._steps.done()
        is_training = self._is_training(session.graph, targets)
        fed = None
        if is_training and self._steps.wants_first:
            fed = dict(named.get("feed_dict") or (arguments[0] if arguments else None) or {})
            data = [tensor for one in behind(targets) if one.type in DATA for tensor in one.outputs]
            fetches = {"fetched": fetches, "data": {one.name: one for one in data if session.graph.is_fetchable(one)}}
        dumper = self._of_session.get(id(session))
        if dumper is None or not targets:
            answer = original(session, fetches, *arguments, **named)
        else:
            answer = self._dumped(original, session, fetches, targets, dumper, rounded, *arguments, **named)
        if fed is not None:
            self._steps.tell_first(session, targets, fed | answer["data"])
            answer = answer["fetched"]
        if is_training:
            self._steps.done()
        return answer

    def callable(self, original: Any, session: Any, options: Any) -> Any:
        """Return a function that runs a session: Keras of TensorFlow 1 makes one, and so its runs are seen."""
        if options.tensor_connection:
            STATE.not_shown["runs of a session that are fed by tensors: no steps, no dumps"] = None
            return original(session, options)
        fetches = {"fetched": list(options.fetch), "run": [one.partition(":")[0] for one in options.target]}

        def call(*values: Any, **_: Any) -> Any:
            return session.run(fetches, dict(zip(options.feed, values, strict=True)))["fetched"]

        return call

    def _dumped(
        self,
        original: Any,
        session: Any,
        fetches: Any,
        targets: list[Any],
        dumper: Dumper,
        rounded: RoundedGraph | None,
        *arguments: Any,
        **named: Any,
    ) -> Any:
        """Run with every number of the operators behind the fetches fetched, too."""
        key = (id(session.graph), session.graph.version, tuple(one.name for one in targets))
        if key not in self._seen:
            self._seen[key] = seen(targets)
        operations, tensors = self._seen[key]
        found = original(session, {"fetched": fetches, "seen": tensors}, *arguments, **named)
        values: dict[str, np.ndarray] = found["seen"]
        if rounded is not None:
            values |= {name: values[new.name] for name, new in rounded.outputs.items() if new.name in values}
        calls = (
            _call(one, values, rounded) for one in operations
            if one.outputs and one.type not in ("Const", "Placeholder", "NoOp", "VarHandleOp")
            and not one.name.startswith(f"{PREFIX}/")
        )  # fmt: skip
        graph = self._graphs.setdefault(tuple(one.name for one in targets), f"graph_{len(self._graphs) + 1}")
        dumper.step(calls, graph)
        return found["fetched"]

    def _is_training(self, graph: Any, targets: list[Any]) -> bool:
        key = (id(graph), graph.version, tuple(one.name for one in targets))
        if key not in self._trains:
            self._trains[key] = trains(targets)
        return self._trains[key]


def _call(operation: Any, values: dict[str, np.ndarray], rounded: RoundedGraph | None) -> Call:
    """Return an operator with its numbers; those of one that is rounded in its smaller type."""
    numbers = [values.get(one.name) for one in operation.inputs], [values.get(one.name) for one in operation.outputs]
    if rounded is not None and operation.type in MATRIX:
        numbers = rounded.rounding.narrowed(*numbers)
    return Call(operation.type, operation.name, *numbers)
