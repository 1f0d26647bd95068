"""Tells whether a method is PyTorch's or one of a class in the same file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import libcst as cst

from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.source import Source

Owner = Literal["own", "torch", "unknown"]
_MAX_DEPTH = 6
_FLUENT = frozenset(
    {"cuda", "npu", "to", "cpu", "eval", "train", "half", "float", "double", "bfloat16", "contiguous", "pin_memory"}
    | {"detach", "clone", "requires_grad_", "share_memory_"}
)
"""Methods that give back an object of the kind they are called on."""


class Receivers:
    """Judges the objects on which a method or attribute called `name` is used in one file."""

    def __init__(self, source: Source, name: str) -> None:
        self._source = source
        self._name = name
        self._own = frozenset(self._with_heirs(set(self._classes_that_define())))

    @property
    def has_own(self) -> bool:
        """Whether a class of this file defines the name itself."""
        return bool(self._own)

    def _classes_that_define(self) -> Iterator[cst.CSTNode]:
        """Yield classes with a method or class attribute of the name, and those that set `self.<name>`."""
        source = self._source
        for node in source.nodes(cst.ClassDef):
            if self._name in source.tree.own_scopes[node].bindings or any(
                source.has_own(base.value, self._name) for base in node.bases
            ):
                yield node
        for target in source.nodes(cst.Attribute):
            if target.attr.value == self._name and target in source.tree.stored:
                around = source.enclosing(target, cst.ClassDef)
                if around is not None and isinstance(target.value, cst.Name) and target.value.value == "self":
                    yield around

    def _with_heirs(self, found: set[cst.CSTNode]) -> set[cst.CSTNode]:
        """Add the classes of this file that inherit from those in `found`."""
        grown = True
        while grown:
            heirs = {
                node
                for node in self._source.nodes(cst.ClassDef)
                if node not in found and any(self._definition(base.value) in found for base in node.bases)
            }
            grown = bool(heirs)
            found |= heirs
        return found

    def is_module_function(self, node: cst.Attribute) -> bool:
        """Tell whether `node` is an attribute of an imported module (`import ext; ext.cuda()`).

        A name that is given something else, too, is no module where that may be called (`model = model.Net()`).
        """
        if not isinstance(node.value, cst.Name):
            return False
        bindings = self._source.scope(node.value).bindings_of(node.value.value)
        return bool(bindings) and all(
            binding.kind == "import" and isinstance(self._source.parent(binding.node), cst.Import)
            for binding in bindings
            if binding.value is None or not is_named(binding.value, "None")
        )

    def is_bound_method(self, node: cst.Attribute) -> bool:
        """Tell whether an attribute that is not called here is a method all the same.

        It is where its object is PyTorch's, or where it is given a name that this file calls; `args.cuda`
        is a flag.
        """
        if self.classify(node.value) == "torch":
            return True
        assignment = self._source.parent(node)
        if not isinstance(assignment, cst.Assign) or len(assignment.targets) != 1 or self.has_own:
            return False
        target = assignment.targets[0].target
        return isinstance(target, cst.Name) and any(
            isinstance(call.func, cst.Name) and call.func.value == target.value for call in self._source.nodes(cst.Call)
        )

    def classify(self, receiver: cst.BaseExpression, depth: int = 0) -> Owner:
        """Tell whose object `receiver` is, as far as this file shows."""
        if depth > _MAX_DEPTH:
            return "unknown"
        if isinstance(receiver, cst.Call):
            return self._by_call(receiver, depth)
        if isinstance(receiver, cst.Name):
            return self._by_name(receiver, depth)
        return "unknown"

    def _by_call(self, call: cst.Call, depth: int) -> Owner:
        if isinstance(call.func, cst.Name) and call.func.value == "super":
            return "torch"
        definition = self._definition(call.func)
        if definition is not None:
            return "own" if definition in self._own else "unknown"
        if self._source.has_own(call.func, self._name):
            return "own"
        if (self._source.qualified(call.func) or "").startswith("torch."):
            return "torch"
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _FLUENT:
            return self.classify(call.func.value, depth + 1)
        return "unknown"

    def _definition(self, node: cst.CSTNode) -> cst.CSTNode | None:
        if not isinstance(node, cst.Name):
            return None
        bindings = self._source.scope(node).bindings_of(node.value)
        return bindings[0].node if len(bindings) == 1 and bindings[0].kind == "definition" else None

    def _by_name(self, name: cst.Name, depth: int) -> Owner:
        bindings = self._source.scope(name).bindings_of(name.value)
        owners = set[Owner]()
        for binding in bindings:
            if binding.value is not None:
                if not self._is_itself(binding.value, name.value):
                    owners.add(self.classify(binding.value, depth + 1))
            elif isinstance(binding.node, cst.Param):
                owners.add(self._by_parameter(binding.node))
            else:
                owners.add("unknown")
        return owners.pop() if len(owners) == 1 else "unknown"

    @staticmethod
    def _is_itself(value: cst.BaseExpression, name: str) -> bool:
        """Tell whether `value` is `name.cuda()` and the like, which says nothing new about `name`."""
        while (
            isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value in _FLUENT
        ):
            value = value.func.value
        return isinstance(value, cst.Name) and value.value == name

    def is_in_own(self, node: cst.CSTNode) -> bool:
        """Tell whether `node` stands in an own definition of the name, whose body moves what the object holds."""
        function = self._source.enclosing(node, cst.FunctionDef)
        return function is not None and function.name.value == self._name and self._class_of(function) in self._own

    def _class_of(self, function: cst.FunctionDef) -> cst.CSTNode | None:
        return self._source.enclosing(function, cst.ClassDef, cst.FunctionDef)

    def _by_parameter(self, parameter: cst.Param) -> Owner:
        if parameter.annotation is not None:
            annotation = parameter.annotation.annotation
            if self._definition(annotation) in self._own or self._source.has_own(annotation, self._name):
                return "own"
            return "torch" if (self._source.qualified(annotation) or "").startswith("torch.") else "unknown"
        function = self._source.enclosing(parameter, cst.FunctionDef)
        if function is None or not function.params.params or function.params.params[0] is not parameter:
            return "unknown"
        return "own" if self._class_of(function) in self._own else "unknown"
