"""`Watch`: sessions of a program are watched: their options are checked, steps counted, dumps written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jumar.tfadapter.bridge.dump import Call, Dumper
from jumar.tfadapter.bridge.rounding import MATRIX, PREFIX, RoundedGraph, Rounding, rounded_graph, rounding_of
from jumar.tfadapter.bridge.state import STATE
from jumar.tfadapter.options import Setting

NAME = "NpuOptimizer"
_TRAINING = ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")
"""How the names of operators begin that change a parameter by its gradient."""
DATA = frozenset({"IteratorGetNext", "QueueDequeueManyV2", "QueueDequeueV2"})
"""Operators that bring data."""
_DUMPS = ("enable_dump", "enable_dump_debug", "dump_path", "dump_step", "dump_mode", "dump_debug_mode", "dump_layer")


class StopRun(BaseException):
    """Ends a program after its last wanted step."""


class Watch:
    """Wraps TensorFlow's sessions and Keras' training functions, and puts them back."""

    def __init__(
        self, stop_after: int | None = None, on_step: Callable[[int], None] | None = None,
        first_step: Callable[..., None] | None = None,
    ) -> None:  # fmt: skip
        """`first_step` is told of the first step: (session, what it fetched, what it was fed) or, of Keras, (model,).

        What came from a data set counts as fed, too.
        """
        self.num_steps = 0
        self.was_stopped = False
        self.used_npu = False
        self.dumpers: list[Dumper] = []
        self._stop_after, self._on_step, self._first_step = stop_after, on_step, first_step
        self._is_watching = True
        self._kept: list[tuple[Any, str, Any]] = []
        self._of_session: dict[int, Dumper] = {}
        self._roundings: dict[int, Rounding] = {}
        self._graphs: dict[tuple[str, ...], str] = {}
        """What runs fetch -> the name of that graph in dumps: the adapter compiles each apart."""
        self._trains: dict[tuple[int, int, tuple[str, ...]], bool] = {}

    def start(self) -> None:
        """Wrap."""
        from tensorflow.python.client import session

        self._wrap(session.BaseSession, "__init__", self._made)
        self._wrap(session.BaseSession, "run", self._run)
        self._wrap(session.BaseSession, "_make_callable_from_options", self._callable)
        import tensorflow as tf

        self._wrap(tf.keras.Model, "make_train_function", self._make_train_function)

    def stop(self) -> None:
        """Put back what was wrapped."""
        for owner, name, original in reversed(self._kept):
            setattr(owner, name, original)
        self._kept.clear()

    def _wrap(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        def wrapped(*arguments: Any, **named: Any) -> Any:
            return around(original, *arguments, **named)

        self._kept.append((owner, name, original))
        setattr(owner, name, wrapped)

    # --- sessions

    def _made(self, original: Any, session: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
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

    def _run(self, original: Any, session: Any, fetches: Any, *arguments: Any, **named: Any) -> Any:
        if not self._is_watching:
            return original(session, fetches, *arguments, **named)
        rounded = rounded_graph(session.graph, self._roundings.get(id(session)))
        if rounded is not None:
            fetches = rounded.read(fetches)
        targets = list(_operations(session.graph, fetches))
        for operation in targets:
            for _ in range(STATE.loops.get(operation.name, 1) - 1):
                original(session, operation, *arguments, **named)
                self._stepped()
        is_training = self._is_training(session.graph, targets)
        fed = None
        if is_training and self._first_step is not None:
            fed = dict(named.get("feed_dict") or (arguments[0] if arguments else None) or {})
            data = [tensor for one in _behind(targets) if one.type in DATA for tensor in one.outputs]
            fetches = {"fetched": fetches, "data": {one.name: one for one in data if session.graph.is_fetchable(one)}}
        dumper = self._of_session.get(id(session))
        if dumper is None or not targets:
            answer = original(session, fetches, *arguments, **named)
        else:
            answer = self._dumped(original, session, fetches, targets, dumper, rounded, *arguments, **named)
        if fed is not None:
            self._tell_first(session, targets, fed | answer["data"])
            answer = answer["fetched"]
        if is_training:
            self._stepped()
        return answer

    def _tell_first(self, *step: Any) -> None:
        tell, self._first_step = self._first_step, None
        if tell is not None:
            self._is_watching = False  # what is asked of the session now is none of the program's
            try:
                tell(*step)
            finally:
                self._is_watching = True

    def _callable(self, original: Any, session: Any, options: Any) -> Any:
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
        operations = _behind(targets)
        tensors = {
            tensor.name: tensor for one in operations for tensor in one.outputs if _can_be_fetched(session, tensor)
        }
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
            self._trains[key] = any(one.type.startswith(_TRAINING) for one in _behind(targets))
        return self._trains[key]

    # --- Keras

    def _make_train_function(self, original: Any, model: Any, *arguments: Any, **named: Any) -> Any:
        answer = original(model, *arguments, **named)
        inner = model.train_function
        if inner is not None and not getattr(inner, "counts_steps", False):

            def counted(*given: Any) -> Any:
                result = inner(*given)
                self._tell_first(model)
                self._stepped()
                return result

            counted.counts_steps = True  # type: ignore[attr-defined]
            model.train_function = counted
            answer = counted
        return answer

    def _stepped(self) -> None:
        self.num_steps += 1
        if self._on_step is not None:
            self._on_step(self.num_steps - 1)
        if self._stop_after is not None and self.num_steps >= self._stop_after:
            self.was_stopped = True
            raise StopRun


def _call(operation: Any, values: dict[str, np.ndarray], rounded: RoundedGraph | None) -> Call:
    """Return an operator with its numbers; those of one that is rounded in its smaller type."""
    numbers = [values.get(one.name) for one in operation.inputs], [values.get(one.name) for one in operation.outputs]
    if rounded is not None and operation.type in MATRIX:
        numbers = rounded.rounding.narrowed(*numbers)
    return Call(operation.type, operation.name, *numbers)


def settings_of(config: Any) -> list[Setting]:
    """Return the options of the NpuOptimizer in a ConfigProto; none where it has no such optimizer."""
    found = []
    for optimizer in config.graph_options.rewrite_options.custom_optimizers:
        if optimizer.name != NAME:
            STATE.tell(
                f"the custom optimizer {optimizer.name!r} is not {NAME!r}: TensorFlow leaves all its options out"
            )
            continue
        for name, value in optimizer.parameter_map.items():
            kind = value.WhichOneof("value")
            found.append(
                Setting("session", name, getattr(value, kind) if kind else None, kind, group=f"session {id(config)}")
            )
    return found


def dumper_of(options: dict[str, Any]) -> Dumper | None:
    """Return the dumper that options ask for."""
    last = {name.rpartition(".")[2]: _text(value) for name, value in options.items()}
    if not (last.get("enable_dump") or last.get("enable_dump_debug")):
        return None
    return Dumper({name: last[name] for name in _DUMPS if last.get(name) is not None})


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _operations(graph: Any, fetches: Any) -> Iterator[Any]:
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


def _behind(targets: list[Any]) -> list[Any]:
    """Return the operators that targets need, in the order in which the graph was made."""
    found, waiting = {}, list(targets)
    while waiting:
        one = waiting.pop()
        if one.name not in found:
            found[one.name] = one
            waiting += [tensor.op for tensor in one.inputs]
            waiting += one.control_inputs
    return sorted(found.values(), key=lambda one: one._id if hasattr(one, "_id") else 0)


def _can_be_fetched(session: Any, tensor: Any) -> bool:
    kind = tensor.dtype
    return bool(kind.is_floating and not kind._is_ref_dtype and session.graph.is_fetchable(tensor))


def say_overflow(dumpers: list[Dumper]) -> None:
    """Print what overflowed first, or over how many steps nothing did."""
    for dumper in dumpers:
        if not dumper.is_overflow:
            continue
        where = dumper.options["dump_path"]
        if dumper.found:
            more = f", and {len(dumper.found) - 1} more" if len(dumper.found) > 1 else ""
            sys.stderr.write(f"jumar: overflow in {dumper.found[0]}{more}: {where}\n")
        else:
            mode = dumper.options.get("dump_debug_mode", "all")
            sys.stderr.write(
                f"jumar: no overflow ({mode}) in {dumper.num_runs} runs, {dumper.num_seen:,} outputs, in the dtypes "
                "that TensorFlow computes on the CPU\n"
            )
