"""Follows the values of one file: which name holds what, which function a call runs, what trains.

A `Holder` is a place that keeps a value: a variable of a scope, or an attribute of a class's instances.
The flow is followed through assignments, arguments, returns and `self`; what leaves the file is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from jumar.convert.rules.subject.names import argument
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.scopes import Scope
from jumar.convert.syntax.source import Source

_MAX_DEPTH = 8

SAME_OBJECT_METHODS = frozenset(
    {
        "to", "cuda", "npu", "cpu", "train", "eval", "float", "half", "bfloat16", "double", "requires_grad_", "apply",
        "share_memory",
    }
)  # fmt: skip
"""Methods of a module that return the module."""
WRAPPERS = frozenset(
    {
        "torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.compile",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    }
)  # fmt: skip
"""Functions that return their first argument, a model, in a wrapper."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A place that keeps a value: variable `name` of a scope, or attribute `name` of a class's instances."""

    owner: Scope | cst.ClassDef
    name: str

    @property
    def of_class(self) -> cst.ClassDef | None:
        """The class whose instances have the attribute, None for a variable."""
        return self.owner if isinstance(self.owner, cst.ClassDef) else None


@dataclass(frozen=True, slots=True)
class Value:
    """What a holder is given: an expression, or the `index`-th item of what it yields."""

    node: cst.BaseExpression
    index: int | None = None


class Flow:
    """The holders, values and calls of one file."""

    def __init__(self, source: Source) -> None:
        self.source = source

    # --- functions ---------------------------------------------------------------------------------------

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the outermost function of the module or of a class that `node` is in, None outside of one."""
        found: cst.FunctionDef | None = None
        for around in self.source.ancestors(node):
            if isinstance(around, cst.FunctionDef):
                found = around
            elif isinstance(around, cst.ClassDef) and found is not None:
                break
        return found

    def class_of(self, function: cst.FunctionDef | None) -> cst.ClassDef | None:
        """Return the class that defines this method, None for a plain function."""
        if function is None:
            return None
        block = self.source.parent(function)
        around = self.source.parent(block) if block is not None else None
        return around if isinstance(around, cst.ClassDef) else None

    def method(self, owner: cst.ClassDef, name: str, depth: int = 0) -> cst.FunctionDef | None:
        """Return a class's method, its own or one inherited from a class of this file."""
        own = self.source.tree.own_scopes[owner].bindings.get(name, [])
        for binding in own:
            if isinstance(binding.node, cst.FunctionDef):
                return binding.node
        for base in owner.bases:
            found = self._definition(base.value)
            if isinstance(found, cst.ClassDef) and depth < _MAX_DEPTH:
                inherited = self.method(found, name, depth + 1)
                if inherited is not None:
                    return inherited
        return None

    def _definition(self, node: cst.CSTNode) -> cst.FunctionDef | cst.ClassDef | None:
        if not isinstance(node, cst.Name):
            return None
        bindings = self.source.scope(node).bindings_of(node.value)
        nodes = [binding.node for binding in bindings if binding.kind == "definition"]
        last = nodes[-1] if nodes else None
        return last if isinstance(last, (cst.FunctionDef, cst.ClassDef)) else None

    def callee(self, call: cst.Call) -> tuple[cst.FunctionDef, int] | None:
        """Return the function of this file that a call runs, and how many parameters come before its arguments."""
        found = self._named_callee(call)
        if found is not None or not isinstance(call.func, cst.Attribute):
            return found
        owner = self.instance_class(call.func.value)
        method = self.method(owner, call.func.attr.value) if owner is not None else None
        return (method, 1) if method is not None else None

    def _named_callee(self, call: cst.Call) -> tuple[cst.FunctionDef, int] | None:
        """Return the callee where it is called by a name, or as a method of `self`."""
        definition = self._definition(call.func)
        if isinstance(definition, cst.FunctionDef):
            return definition, 0
        if isinstance(definition, cst.ClassDef):
            made_by = self.method(definition, "__init__")
            return (made_by, 1) if made_by is not None else None
        owner = self._self_class(call.func.value) if isinstance(call.func, cst.Attribute) else None
        if owner is None or not isinstance(call.func, cst.Attribute):
            return None
        method = self.method(owner, call.func.attr.value)
        return (method, 1) if method is not None else None

    def instance_class(self, node: cst.BaseExpression, depth: int = 0) -> cst.ClassDef | None:
        """Return the class of this file that an expression is an instance of, where that can be told."""
        if isinstance(node, cst.Call):
            definition = self._definition(node.func)
            return definition if isinstance(definition, cst.ClassDef) else None
        if depth > _MAX_DEPTH:
            return None
        holder = self.holder(node, depth + 1)
        if holder is None:
            return self._self_class(node)
        given = [value.node for value in self._assigned.get(holder, ()) if value.index is None]
        given += self._arguments(holder, self._named_calls_of)
        found = (self.instance_class(value, depth + 1) for value in given)
        return next((owner for owner in found if owner is not None), None)

    def _self_class(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """Return the class whose instance `node` is as a method's first parameter."""
        if not isinstance(node, cst.Name):
            return None
        method = self.function(node)
        owner = self.class_of(method)
        if method is None or owner is None:
            return None
        parameters = [*method.params.posonly_params, *method.params.params]
        return owner if parameters and parameters[0].name.value == node.value else None

    @cached_property
    def calls_of(self) -> dict[cst.FunctionDef, list[cst.Call]]:
        """The calls of each function of this file."""
        return self._calls(self.callee)

    @cached_property
    def _named_calls_of(self) -> dict[cst.FunctionDef, list[cst.Call]]:
        # NOTE: `calls_of` asks for the classes of objects, which asks for arguments: those of these calls only.
        return self._calls(self._named_callee)

    def _calls(
        self, callee: Callable[[cst.Call], tuple[cst.FunctionDef, int] | None]
    ) -> dict[cst.FunctionDef, list[cst.Call]]:
        found: dict[cst.FunctionDef, list[cst.Call]] = {}
        for call in self.source.nodes(cst.Call):
            target = callee(call)
            if target is not None:
                found.setdefault(target[0], []).append(call)
        return found

    def bound(self, call: cst.Call, function: cst.FunctionDef, name: str, skipped: int) -> cst.BaseExpression | None:
        """Return the argument that a call gives to the parameter `name`, None when it cannot be told."""
        names = [param.name.value for param in (*function.params.posonly_params, *function.params.params)]
        index = names.index(name) - skipped if name in names else -1
        return argument(call, index if index >= 0 else len(call.args), name)

    # --- values ------------------------------------------------------------------------------------------

    def holder(self, node: cst.CSTNode, depth: int = 0) -> Holder | None:
        """Return the place an expression reads or writes: a variable, or an attribute of an instance."""
        if isinstance(node, cst.Name):
            if self._self_class(node) is not None:
                return None
            home = self.source.scope(node).home(node.value)
            return Holder(home, node.value) if home is not None else None
        if isinstance(node, cst.Attribute) and isinstance(node.value, (cst.Name, cst.Attribute)):
            owner = self._self_class(node.value) or self.instance_class(node.value, depth)
            return Holder(owner, node.attr.value) if owner is not None else None
        return None

    @cached_property
    def _assigned(self) -> dict[Holder, list[Value]]:
        found: dict[Holder, list[Value]] = {}
        for target, value in self._written():
            for node, item in _items(target, value):
                # NOTE: instance_class asks for values while this table is made, so only `self.x` is resolved here.
                owner = self._self_class(node.value) if isinstance(node, cst.Attribute) else None
                if owner is not None and isinstance(node, cst.Attribute):
                    found.setdefault(Holder(owner, node.attr.value), []).append(item)
                elif isinstance(node, cst.Name):
                    home = self.source.scope(node).home(node.value)
                    if home is not None:
                        found.setdefault(Holder(home, node.value), []).append(item)
        return found

    def _written(self) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
        for node in self.source.nodes(cst.Assign):
            yield from ((target.target, node.value) for target in node.targets)
        for annotated in self.source.nodes(cst.AnnAssign):
            if annotated.value is not None:
                yield annotated.target, annotated.value
        for walrus in self.source.nodes(cst.NamedExpr):
            yield walrus.target, walrus.value
        for item in self.source.nodes(cst.WithItem):
            if item.asname is not None and isinstance(item.asname.name, (cst.Name, cst.Tuple)):
                yield item.asname.name, item.item

    @property
    def assigned(self) -> Mapping[Holder, list[Value]]:
        """What every variable and attribute is assigned."""
        return self._assigned

    def values(self, holder: Holder) -> list[Value]:
        """Return every expression a holder is given: by assignment, and by calls where it is a parameter."""
        arguments = self._arguments(holder, self.calls_of) if self.is_parameter(holder) else []
        return [*self._assigned.get(holder, ()), *(Value(node) for node in arguments)]

    def _arguments(self, holder: Holder, calls: Mapping[cst.FunctionDef, list[cst.Call]]) -> list[cst.BaseExpression]:
        """Return what a parameter is given by these calls; nothing for other holders."""
        function = holder.owner.owner if isinstance(holder.owner, Scope) else None
        if not isinstance(function, cst.FunctionDef) or not self.is_parameter(holder):
            return []
        skipped = 1 if self.class_of(function) is not None else 0
        given = (self.bound(call, function, holder.name, skipped) for call in calls.get(function, ()))
        return [node for node in given if node is not None]

    def is_parameter(self, holder: Holder) -> bool:
        """Tell whether a holder is a parameter of a function."""
        if not isinstance(holder.owner, Scope):
            return False
        return any(binding.kind == "parameter" for binding in holder.owner.bindings.get(holder.name, ()))

    def returned(self, function: cst.FunctionDef, index: int | None) -> Iterator[Value]:
        """Yield what a function returns, or the `index`-th item of it."""
        for node in self.source.nodes(cst.Return):
            if node.value is None or self.function(node) is not function:
                continue
            if index is None:
                yield Value(node.value)
            elif isinstance(node.value, cst.Tuple):
                if index < len(node.value.elements):
                    yield Value(node.value.elements[index].value)
            else:
                yield Value(node.value, index)

    def origins(self, holder: Holder, seen: frozenset[Holder] = frozenset()) -> frozenset[Holder]:
        """Return the holders that a holder's object may come from, itself among them (`self.net` ← `net`)."""
        if holder in seen or len(seen) > _MAX_DEPTH:
            return seen
        found = seen | {holder}
        for value in self.values(holder):
            base = self.holder(self.stripped(value.node)) if value.index is None else None
            if base is not None:
                found |= self.origins(base, found)
            for other in self._through_return(value):
                found |= self.origins(other, found)
        return found

    def _through_return(self, value: Value) -> Iterator[Holder]:
        call = self.stripped(value.node)
        target = self.callee(call) if isinstance(call, cst.Call) else None
        if target is None or target[0].name.value == "__init__":
            return
        for item in self.returned(target[0], value.index):
            holder = self.holder(self.stripped(item.node)) if item.index is None else None
            if holder is not None:
                yield holder

    def stripped(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return what stays of a module's expression without moves and wrappers: `DataParallel(net.cuda())` → `net`."""
        while isinstance(node, cst.Call):
            if self.source.qualified(node.func) in WRAPPERS and node.args:
                node = node.args[0].value
            elif isinstance(node.func, cst.Attribute) and callee_name(node) in SAME_OBJECT_METHODS:
                node = node.func.value
            else:
                break
        return node


def _items(target: cst.BaseExpression, value: cst.BaseExpression) -> Iterator[tuple[cst.BaseExpression, Value]]:
    """Yield each target of an assignment with what it is given."""
    if not isinstance(target, (cst.Tuple, cst.List)):
        yield target, Value(value)
        return
    same = isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == len(target.elements)
    for index, element in enumerate(target.elements):
        if isinstance(element, cst.StarredElement):
            return
        given = value.elements[index].value if same and isinstance(value, (cst.Tuple, cst.List)) else None
        yield from _items(element.value, given) if given is not None else [(element.value, Value(value, index))]
