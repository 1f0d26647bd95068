"""Impl: ATen writing into memory that is no longer read, instead of fresh memory in every call."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jumar.operators import has
from jumar.operators.dtypes import size_bytes
from jumar.tune.engines.base import Site
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Function, Policy, Task, TensorSpec
from jumar.tune.providers.base import Provider

if TYPE_CHECKING:
    import torch

LEAST_BYTES = 8 << 20
"""Smaller outputs come from memory that malloc keeps anyway."""
GREATEST_BUFFERS = 2
"""Sets of outputs that are kept for later calls."""


class Reused(Provider):
    """The operator's `out` form, with the outputs of an earlier call as memory once only this provider holds them.

    A great block is otherwise mapped in every call, and each of its pages faulted in: of a softmax over 85 MB that is
    most of the time. An output that the program still holds, or a view of it, is left alone. At most
    `GREATEST_BUFFERS` sets of outputs stay allocated. The operator is computed itself: layouts chosen before are left
    aside. Several threads may call at once: a set of outputs is one thread's until its results are handed out.
    """

    name = "reused_outputs"
    kind = "Impl"

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer it where an output may be great."""
        return [self.policy()] if greatest_output_bytes(task) >= LEAST_BYTES else []

    def apply(self, policy: Policy, function: Function, example: Sequence[Any], site: Site) -> Function:
        """Return the operator's `out` form on kept memory. Raises TuneError for an operator without one."""
        run, names = _out_form(site)
        made = function(*example)
        single = not isinstance(made, (tuple, list))
        plain = [made] if single else list(made)
        if len(plain) != len(names):
            raise TuneError(f"{site.graph.nodes[0].operator} has no form that writes all its outputs.")
        layouts = [(tuple(one.shape), one.stride(), one.dtype, one.device) for one in plain]
        kept: list[list[torch.Tensor]] = []
        taking = threading.Lock()

        def call(*tensors: torch.Tensor) -> Any:
            with taking:
                known = _free(kept)
            outputs = known or _fresh(layouts)
            run(tensors, dict(zip(names, outputs, strict=True)))
            # NOTE: aliases with the same storage go out; while one is alive the storage is in use.
            given = [output.detach() for output in outputs]
            # NOTE: after the aliases are made: another thread may take what is kept and not in use.
            kept.append(outputs)
            return given[0] if single else tuple(given)

        return call


def _free(kept: list[list[torch.Tensor]]) -> list[torch.Tensor] | None:
    """Take the first set of outputs that nobody else holds out of `kept`; forget the oldest of too many."""
    import torch

    count = torch._C._storage_Use_Count
    for place, outputs in enumerate(kept):
        if all(count(output.untyped_storage()._cdata) <= _OWN_USES for output in outputs):
            return kept.pop(place)
    del kept[: max(0, len(kept) - GREATEST_BUFFERS + 1)]
    return None


_OWN_USES = 2
"""The tensor's own, and that of the Python object which asks."""


def _fresh(layouts: Sequence[tuple[Any, ...]]) -> list[torch.Tensor]:
    """Make outputs outside of the caller's inference mode: what is made there cannot be written to elsewhere."""
    import torch

    with torch.inference_mode(False):
        return [
            torch.empty_strided(shape, stride, dtype=dtype, device=device) for shape, stride, dtype, device in layouts
        ]


def _out_form(site: Site) -> tuple[Callable[[Sequence[Any], dict[str, Any]], Any], list[str]]:
    """Return what calls the operator's `out` form with the variable inputs, and the names of its outputs."""
    import torch

    from jumar.tune.graph.fx import overload

    graph, node = site.graph, site.graph.nodes[0]
    plain = overload(node.operator)
    namespace, _, rest = node.operator.rpartition("::")
    packet = getattr(getattr(torch.ops, namespace), rest.partition(".")[0])
    wanted = [(one.name, str(one.type)) for one in plain._schema.arguments]
    for name in packet.overloads():
        form = getattr(packet, name)
        arguments = form._schema.arguments
        outs = [one.name for one in arguments if one.is_out]
        if outs and [(one.name, str(one.type)) for one in arguments if not one.is_out] == wanted:
            return _bound(form, graph, site), outs
    raise TuneError(f"{node.operator} has no form that writes into given memory.")


def _bound(form: Any, graph: Any, site: Site) -> Callable[[Sequence[Any], dict[str, Any]], Any]:
    from jumar.tune.graph.fx import to_fx

    call = next(node for node in to_fx(graph).graph.nodes if node.op == "call_function")
    places = {f"input_{place}": place for place in range(len(graph.inputs))}
    variables = {place: number for number, place in enumerate(graph.variables)}

    def value(argument: Any, tensors: Sequence[Any]) -> Any:
        place = places.get(getattr(argument, "name", ""))
        if place is None:
            return argument
        return tensors[variables[place]] if place in variables else site.constants[place]

    def run(tensors: Sequence[Any], outputs: dict[str, Any]) -> Any:
        given = [value(argument, tensors) for argument in call.args]
        return form(*given, **{name: value(one, tensors) for name, one in call.kwargs.items()}, **outputs)

    return run


def greatest_output_bytes(task: Task) -> int:
    """Return a bound from above of an output's size: that of the greatest input, or of the rows times the columns."""
    specs = list(task.tensors.values())
    greatest = max((_size_bytes(spec) for spec in specs), default=0)
    matrices = [spec for spec in specs if len(spec.shape) > 1]
    if has(task.operator, "product") and len(matrices) > 1:
        left, right = matrices[-2:]
        rows = math.prod(left.shape) // max(left.shape[-1], 1)
        greatest = max(greatest, rows * max(right.shape[-2:]) * size_bytes(left.dtype, 8))
    return greatest


def _size_bytes(spec: TensorSpec) -> int:
    return math.prod(spec.shape) * size_bytes(spec.dtype, 8)
