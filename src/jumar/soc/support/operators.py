"""`OperatorTables`: whether an operator has a kernel on a SoC, and what happens when it has none.

The matching rule. An overload is looked up exactly (`aten::add.Tensor`; `aten::relu.default` is
`aten::relu`); an in-place or out form is an overload of its own, because the adapter registers each.

1. Listed for this torch version (op-plugin's `official`, the adapter's own list) → native, if the
   chip runs the route it is listed for: from Ascend910B1 on aclnn (`op_api`) or the graph compiler
   (`acl_op`), before it `acl_op`, on Ascend950 `op_api` only.
2. Not listed, and a view → native: PyTorch makes it from `as_strided`, nothing is computed.
3. Not listed, and composite in PyTorch → whatever the operators it calls come out as: decomposed
   when all of them run on the device, else the worst of them, named in the note.
4. Not listed, with a CPU kernel → fallback: torch_npu's boxed fallback copies to the host and back.
5. Not listed, without one → unsupported.

`aten::add` without an overload stands for all of them: the best one, with the others in the note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from jumar.operators.traits import npu_equivalents
from jumar.soc.profiles import SocProfile
from jumar.soc.support.data import kinds, overloads, table
from jumar.soc.support.knowledge import NAMESPACES, SLOW_PATH_BEFORE_A2

OperatorStatus = Literal["native", "decomposed", "fallback", "unsupported"]

RANK: Mapping[str, int] = {"native": 0, "decomposed": 1, "fallback": 2, "unsupported": 3}
"""Statuses from best to worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSupport:
    """What one operator does on one SoC. `certain` is False where a table leaves room for doubt."""

    name: str
    """Qualified, without `.default`: `aten::add.Tensor`."""
    status: OperatorStatus
    source: str
    """The table or registration that says so."""
    note: str = ""
    """Of what does not run on the device: a predicate to put after the name ("has no NPU kernel")."""
    routes: tuple[str, ...] = ()
    """`op_api` (aclnn) and `acl_op` (graph compiler), as far as the tables name them for this version."""
    through: tuple[str, ...] = ()
    """Operators that decide it, when it has no kernel of its own."""
    certain: bool = True


class OperatorTables:
    """Operator support on one SoC and one torch version (`minor` of PyTorch 2)."""

    def __init__(self, soc: SocProfile, minor: int) -> None:
        self._soc = soc
        self._minor = minor
        vendor = table("npu_operators")
        self._official: Mapping[str, Mapping[str, list[int]]] = vendor["official"]
        self._custom: Mapping[str, Mapping[str, list[int]]] = vendor["custom"]
        self._adapter = frozenset(vendor["adapter"])
        self._adapter_custom = frozenset(vendor["adapter_custom"])
        self._calls: Mapping[str, list[str]] = table("pytorch_operators")["calls"]
        self._torch = table("pytorch_operators")["torch"]
        self._known: dict[str, OperatorSupport] = {}

    def support(self, name: str) -> OperatorSupport:
        """Return the support of `name`: `aten::add.Tensor`, `aten.add.Tensor` or `add.Tensor`."""
        return self._support(plain_name(name), ())

    def worst(self, names: Iterable[str]) -> OperatorSupport | None:
        """Return the support of the operator that fares worst, the first of equals; None for no names."""
        found = [self._support(plain_name(name), ()) for name in names]
        return max(found, key=lambda support: RANK[support.status], default=None)

    def _support(self, name: str, parents: tuple[str, ...]) -> OperatorSupport:
        if name in self._known:
            return self._known[name]
        rule: Callable[[str, tuple[str, ...]], OperatorSupport]
        if "::" in name:
            rule = self._of_a_library
        elif self._is_listed(name):
            rule = self._listed
        elif name in npu_equivalents():
            rule = self._of_another_device
        elif name in kinds():
            rule = self._not_listed
        else:
            rule = self._packet
        support = rule(name, parents)
        if not parents:  # inside a cycle the answer leaves out the parents: only a whole answer is kept
            self._known[name] = support
        return support

    def _is_listed(self, name: str) -> bool:
        return name in self._adapter or bool(self._routes(self._official.get(name, {})))

    def _routes(self, entry: Mapping[str, list[int]]) -> tuple[str, ...]:
        return tuple(sorted(route for route, (first, last) in entry.items() if first <= self._minor <= last))

    def _listed(self, name: str, parents: tuple[str, ...]) -> OperatorSupport:
        if name in self._adapter:
            return OperatorSupport(name=f"aten::{name}", status="native", source="torch_npu adapter functions")
        return self._by_route(f"aten::{name}", self._routes(self._official[name]), "op-plugin functions")

    def _by_route(self, name: str, routes: tuple[str, ...], source: str) -> OperatorSupport:
        found = OperatorSupport(name=name, status="native", source=source, routes=routes)
        soc = self._soc
        if soc.is_aclnn_only and "op_api" not in routes:
            return replace(found, status="unsupported", note=f"has no aclnn kernel, and {soc.name} runs no others")
        if soc.is_aclnn_default or "acl_op" in routes or any(route.startswith("sparse") for route in routes):
            return found
        bare = name.removeprefix("aten::")
        if bare.startswith(SLOW_PATH_BEFORE_A2):
            return replace(found, status="decomposed", note=f"on {soc.name} the adapter takes PyTorch's composite path")
        note = f"is registered for aclnn only, and {soc.name} mostly lacks those kernels"
        return replace(found, status="unsupported", note=note, certain=False)

    def _of_a_library(self, name: str, parents: tuple[str, ...]) -> OperatorSupport:
        namespace, _, bare = name.partition("::")
        if namespace in NAMESPACES:
            return OperatorSupport(name=name, status="native", source="torch_npu", note=NAMESPACES[namespace])
        if namespace == "npu" and bare in self._adapter_custom:
            return OperatorSupport(name=name, status="native", source="torch_npu adapter functions")
        routes = self._routes(self._custom.get(bare, {})) if namespace == "npu" else ()
        if routes:
            return self._by_route(name, routes, "op-plugin custom functions")
        if namespace == "npu":
            return OperatorSupport(
                name=name,
                status="unsupported",
                source="op-plugin custom functions",
                note="is no custom operator of torch_npu",
            )
        if namespace == "triton":
            note = "a Triton kernel of the script, which triton-ascend compiles"
            return OperatorSupport(name=name, status="native", source="triton-ascend", note=note, certain=False)
        note = f"belongs to the library {namespace}, which runs on the host if it has a CPU kernel, else not at all"
        return OperatorSupport(name=name, status="fallback", source="no table", note=note, certain=False)

    def _of_another_device(self, name: str, parents: tuple[str, ...]) -> OperatorSupport:
        stand_in = npu_equivalents()[name]
        decided = self._support(stand_in, parents)
        note = f"another device's implementation; on an NPU PyTorch calls aten::{stand_in}"
        return replace(decided, name=f"aten::{name}", note=note, through=(f"aten::{stand_in}",))

    def _not_listed(self, name: str, parents: tuple[str, ...]) -> OperatorSupport:
        kind = kinds()[name]
        qualified, source = f"aten::{name}", f"PyTorch {self._torch} registration"
        if kind == "view":
            return OperatorSupport(name=qualified, status="native", source=source, note="a view: nothing is computed")
        if kind == "leaf":
            note = "has no NPU kernel"
            return OperatorSupport(name=qualified, status="fallback", source="not in op-plugin functions", note=note)
        if kind == "no-cpu":
            note = "has neither an NPU nor a CPU kernel"
            return OperatorSupport(name=qualified, status="unsupported", source=source, note=note)
        return self._composite(name, parents, source)

    def _composite(self, name: str, parents: tuple[str, ...], source: str) -> OperatorSupport:
        calls = [call for call in self._calls.get(name, ()) if call not in parents and call != name]
        decided = [self._support(call, (*parents, name)) for call in calls]
        worst = max(decided, key=lambda support: RANK[support.status], default=None)
        found = OperatorSupport(name=f"aten::{name}", status="decomposed", source=f"{source} (composite)")
        if worst is None:
            return replace(found, note="PyTorch builds it from other operators", certain=False)
        if RANK[worst.status] <= RANK["decomposed"]:
            shown = ", ".join(support.name for support in decided[:4])
            return replace(found, note=f"runs as {shown}", through=tuple(support.name for support in decided))
        return replace(
            found, status=worst.status, note=f"calls {worst.name}, which {worst.note}", through=(worst.name,),
            certain=worst.certain,
        )  # fmt: skip

    def _packet(self, name: str, parents: tuple[str, ...]) -> OperatorSupport:
        members = [self._support(member, parents) for member in overloads().get(name, ()) if member != name]
        if not members:
            return OperatorSupport(
                name=f"aten::{name}", status="unsupported", source=f"PyTorch {self._torch}",
                note=f"is no operator of PyTorch {self._torch}", certain=False,
            )  # fmt: skip
        best = min(members, key=lambda support: RANK[support.status])
        others = sorted(m.name for m in members if RANK[m.status] > RANK[best.status] and RANK[m.status] > 1)
        note = f"best overload {best.name}" + (f"; on the host or missing: {', '.join(others)}" if others else "")
        return replace(best, name=f"aten::{name}", note=note)


def plain_name(name: str) -> str:
    """Return an operator's name as the tables spell it: no `aten::` and no `.default`, other namespaces kept."""
    if name.startswith(("aten.", "torch.ops.aten.")):
        name = name.removeprefix("torch.ops.").removeprefix("aten.")
    return name.removeprefix("aten::").removesuffix(".default")
