"""Sizes that vary from call to call: each that the bank knows runs by its own plan, all others untuned.

TorchDynamo hands over one graph for all sizes. Plans are for fixed ones, the gears that were tuned, so the graph is
captured once for each size that is met, when it is met.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from types import FunctionType
from typing import Any

import torch
from torch import fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from jumar.tune.backend.compilation import Compilation, Compiled, reason_of
from jumar.tune.backend.inference import Ready, tuned
from jumar.tune.model.notes import say, tell

GREATEST_GEARS = 32
"""Sizes that are looked up at most."""
GREATEST_MISSES = 6
"""Sizes that may be missing in the bank before no further one is looked up: each look captures the model once."""

Prepare = Callable[[Sequence[Any]], Ready | None]


def sizes_vary(module: fx.GraphModule) -> bool:
    """Tell whether a graph from TorchDynamo is one for several sizes."""
    values = [node.meta.get("example_value") for node in module.graph.find_nodes(op="placeholder")]
    sizes = [size for value in values if isinstance(value, torch.Tensor) for size in (*value.shape, *_strides(value))]
    return any(isinstance(value, torch.SymInt) for value in [*values, *sizes])


def by_size(compilation: Compilation, prepare: Prepare) -> Compiled:
    """Return what computes each call by the plan for its sizes; `prepare` makes that, or None where there is none."""
    return _Gears(compilation, prepare).compute


class _Gears:
    def __init__(self, compilation: Compilation, prepare: Prepare) -> None:
        self._compilation = compilation
        self._prepare = prepare
        self._known: dict[tuple[Any, ...], Compiled] = {}
        self._misses = 0
        self._lock = Lock()
        self._untuned: Compiled | None = None

    def compute(self, *given: Any) -> Any:
        """Compute one call."""
        sizes = tuple(value.shape if isinstance(value, torch.Tensor) else value for value in given)
        compute = self._known.get(sizes)
        if compute is None:
            with self._lock:
                compute = self._known.get(sizes) or self._met(sizes, given)
        return compute(*given)

    def _met(self, sizes: tuple[Any, ...], given: Sequence[Any]) -> Compiled:
        if len(self._known) >= GREATEST_GEARS or self._misses >= GREATEST_MISSES:
            self._tell_of_others()
            return self._other()
        ready = self._prepare(given)
        if ready is None:
            self._misses += 1
            self._tell_of_others()
            self._known[sizes] = self._other()
        else:
            self._known[sizes] = tuned(ready, given, self._prepare, self._other)
        return self._known[sizes]

    def _tell_of_others(self) -> None:
        """Say that a size has no plan, where others have; of a model that was never tuned that is no news."""
        if len(self._known) > self._misses:
            say(
                f"{self._compilation.name} runs untuned for sizes that are not tuned; tune them as gears, "
                '--input-shape "x:1,3,224,224;8,3,224,224".'
            )

    def _other(self) -> Compiled:
        """Return what computes sizes without a plan."""
        if self._untuned is None:
            self._untuned = for_all_sizes(self._compilation)
        return self._untuned


def for_all_sizes(compilation: Compilation) -> Compiled:
    """Return what TorchInductor makes of a graph for all sizes, compiled when it is first called."""
    options = dict(compilation.patches)
    alone = _with_code_of_its_own(compilation.module)
    compiled = torch.compile(alone, backend="inductor", dynamic=True, options=options or None)
    plain = compilation.module.forward
    use: list[Compiled] = [compiled]

    def call(*given: Any) -> Any:
        if use[0] is plain:
            return plain(*given)
        try:
            return compiled(*given)
        except Exception as error:  # noqa: BLE001 - TorchInductor may raise anything, and the model must run
            tell(f"{compilation.name} is not compiled for all sizes, and runs as it is: {reason_of(error)}")
            use[0] = plain
            return plain(*given)

    return call


def _with_code_of_its_own(module: fx.GraphModule) -> Compiled:
    """Return a function that calls a graph, the only one of its code.

    TorchDynamo keeps what it compiled by code and stops at eight; graphs that it is given themselves share one.
    """

    _LazyGraphModule.force_recompile(module)  # TorchDynamo does not look into a forward that is yet to be written

    def call(*given: Any) -> Any:
        return module(*given)

    return FunctionType(call.__code__.replace(), call.__globals__, call.__name__, None, call.__closure__)


def _strides(value: torch.Tensor) -> Sequence[Any]:
    return value.stride() if value.layout is torch.strided else ()


def with_floats_fixed(
    compilation: Compilation, compiled: Callable[[Compilation], Compiled], general: Callable[[Compilation], Compiled]
) -> Compiled:
    """Return what `compiled` makes of the graph with its floats written into it.

    `general` makes what computes calls with other floats, when the first one comes.
    """
    places = _floats(compilation.module)
    if not places:
        return compiled(compilation)
    values = [compilation.arguments[place].item() for place in places]
    fixed = compiled(replace(compilation, module=_fixed(compilation.module, dict(zip(places, values, strict=True)))))
    others: list[Compiled] = []

    def call(*given: Any) -> Any:
        if [given[place].item() for place in places] == values:
            return fixed(*given)
        if not others:
            others.append(general(compilation))
        return others[0](*given)

    return call


def _floats(module: fx.GraphModule) -> Sequence[int]:
    """Return which arguments are Python's floats in tensors."""
    return [
        number
        for number, node in enumerate(module.graph.find_nodes(op="placeholder"))
        if node.users and getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False) and _is_read(node)
    ]


def _is_read(node: fx.Node) -> bool:
    return all(user.op == "call_method" and user.target == "item" for user in node.users)


def _fixed(module: fx.GraphModule, values: dict[int, Any]) -> fx.GraphModule:
    made = fx.GraphModule(module, copy.deepcopy(module.graph))
    for number, node in enumerate(made.graph.find_nodes(op="placeholder")):
        if number not in values:
            continue
        for read in list(node.users):
            for user in list(read.users):
                _write(user, read, values[number])
            made.graph.erase_node(read)
    made.recompile()
    return made


def _write(user: fx.Node, read: fx.Node, value: Any) -> None:
    """Let `user` take `value` in the place of what `read` gives."""

    def chosen(one: fx.Node) -> Any:
        return value if one is read else one

    user.args, user.kwargs = fx.map_arg((user.args, user.kwargs), chosen)
