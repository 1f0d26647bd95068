"""Values and branches that all ranks must agree on.

A value computed from one rank's batches differs from rank to rank. Where it decides something, the ranks
would part ways and wait for each other for ever; where it is divided by the number of all samples, it is
too small. `tainted` follows such values; the way through a branch they decide is one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from jumar.base.findings import Severity
from jumar.convert.model.edits import Replacement
from jumar.convert.rules.distributed.program.change import Change, around
from jumar.convert.rules.distributed.program.flow import Holder
from jumar.convert.rules.distributed.program.loaders import is_training_length
from jumar.convert.rules.distributed.program.training import Training, Unclear
from jumar.convert.syntax.devices import callee_name

_DIVERGES = (cst.Break, cst.Continue, cst.Return)
_CLOCKS = frozenset({"time.time", "time.perf_counter", "time.monotonic", "time.process_time"})
_PLAIN = frozenset({"builtins.len", "builtins.range", "builtins.isinstance", "builtins.hasattr"})


def changes(training: Training) -> Iterator[Change]:
    """Yield the changes that keep the ranks together."""
    taint = Taint(training)
    yield from _divided(training, taint)
    yield from _returned(training, taint)
    yield from _stepped(training, taint)
    yield from _branches(training, taint)


class Taint:
    """Which holders of a file have values that differ from rank to rank."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.flow = training.flow
        self.source = training.source

    @cached_property
    def holders(self) -> frozenset[Holder]:
        """Every variable and attribute whose value depends on one rank's batches, or on its clock."""
        found = set(self._batches())
        while True:
            more = {holder for holder, nodes in self._given if any(self._depends(node, found) for node in nodes)}
            if more <= found:
                return frozenset(found)
            found |= more

    def _batches(self) -> Iterator[Holder]:
        """Yield what a training loop is given: the targets of its `for`."""
        for loop in self.training.loops:
            if isinstance(loop, cst.For):
                names = [node for node in _names(loop.target) if not self._counts(loop, node)]
                yield from (holder for name in names if (holder := self.flow.holder(name)) is not None)

    def _counts(self, loop: cst.For, name: cst.BaseExpression) -> bool:
        """Tell whether a target is the number that enumerate gives."""
        made = [call for call in self.source.nodes(cst.Call) if loop.iter in (call, *self.source.ancestors(call))]
        counted = any(self.source.qualified(call.func) == "builtins.enumerate" for call in made)
        return counted and isinstance(loop.target, cst.Tuple) and loop.target.elements[0].value is name

    @cached_property
    def _given(self) -> list[tuple[Holder, list[cst.CSTNode]]]:
        """Return what each holder is given in training functions: expressions, and tests that decide about it."""
        found: dict[Holder, list[cst.CSTNode]] = {}
        for assigned, values in self.flow.assigned.items():
            found.setdefault(assigned, []).extend(value.node for value in values)
        for holder, node in self._added():
            found.setdefault(holder, []).append(node)
        for decided, nodes in found.items():
            nodes.extend(self._deciding(decided))
        return list(found.items())

    def _added(self) -> Iterator[tuple[Holder, cst.CSTNode]]:
        """Yield what is added to a holder in place: by `+=`, by `.update(...)` and `.append(...)`."""
        for node in self.source.nodes(cst.AugAssign):
            holder = self.flow.holder(node.target)
            if holder is not None:
                yield holder, node.value
        for call in self.source.nodes(cst.Call):
            holder = self.flow.holder(call.func.value) if isinstance(call.func, cst.Attribute) else None
            if holder is not None and callee_name(call) in ("update", "append", "add", "extend"):
                yield from ((holder, arg.value) for arg in call.args)

    def _deciding(self, holder: Holder) -> Iterator[cst.CSTNode]:
        for name in self.source.nodes(cst.Name):
            if name.value != holder.name or name not in self.source.tree.stored or self.flow.holder(name) != holder:
                continue
            for around_it in self.source.ancestors(name):
                if isinstance(around_it, cst.FunctionDef):
                    break
                if isinstance(around_it, cst.If):
                    yield around_it.test

    def _depends(self, node: cst.CSTNode, holders: set[Holder]) -> bool:
        if self.flow.function(node) not in self.training.trains and self.flow.function(node) is not None:
            return False
        return any(self._is_tainted(found, holders) for found in self._leaves(node))

    def _leaves(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield names, attributes and calls inside an expression; arguments of len() and of what trains are apart."""
        if isinstance(node, cst.Call):
            yield node
            target = self.flow.callee(node)
            if self.source.qualified(node.func) in _PLAIN or (target is not None and target[0] in self.training.trains):
                return
        elif isinstance(node, (cst.Name, cst.Attribute)):
            yield node
        for child in node.children:
            yield from self._leaves(child)

    def _is_tainted(self, node: cst.CSTNode, holders: set[Holder]) -> bool:
        if isinstance(node, cst.Call):
            target = self.flow.callee(node)
            return self.source.qualified(node.func) in _CLOCKS or (target is not None and self._is_step(target[0]))
        holder = self.flow.holder(node)
        return holder in holders if holder is not None else False

    def _is_step(self, function: cst.FunctionDef) -> bool:
        """Tell whether a function trains on one batch; what one with a loop of its own returns is averaged."""
        if function not in self.training.trains or function.name.value == "__init__":
            return False
        return not any(self.flow.function(loop) is function for loop in self.training.loops)

    def of(self, node: cst.CSTNode) -> bool:
        """Tell whether an expression's value differs from rank to rank."""
        return any(self._is_tainted(found, set(self.holders)) for found in self._leaves(node))


def _names(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from _names(element.value)
    else:
        yield node


# --- sums over all samples -------------------------------------------------------------------------------


def _divided(training: Training, taint: Taint) -> Iterator[Change]:
    source = training.source
    message = "The sum over one rank's samples becomes the sum over all of them, by which it is divided."
    helpers = frozenset({"sum_over_ranks"})
    for node in source.nodes(cst.BinaryOperation):
        if isinstance(node.operator, cst.Divide) and is_training_length(training, node.right) and taint.of(node.left):
            yield Change(
                span=source.outer_span(node.left),
                message=message,
                replacements=around(source, node.left, "sum_over_ranks("),
                helpers=helpers,
                shared=True,
            )
    for statement in source.nodes(cst.AugAssign):
        if not isinstance(statement.operator, cst.DivideAssign) or not is_training_length(training, statement.value):
            continue
        if isinstance(statement.target, cst.Name) and taint.of(statement.target):
            start = source.span(statement.target)[1]
            end = source.outer_span(statement.value)[0]
            code = source.text.text[start:end].replace("/=", f"= sum_over_ranks({statement.target.value}) /")
            yield Change(
                span=(start, end),
                message=message,
                replacements=(Replacement(start, end, code),),
                helpers=helpers,
                shared=True,
            )


# --- values that leave a training function ---------------------------------------------------------------


def _returned(training: Training, taint: Taint) -> Iterator[Change]:
    source = training.source
    for node in source.nodes(cst.Return):
        function = training.flow.function(node)
        if (
            node.value is None
            or function not in training.trains
            or source.enclosing(node, cst.FunctionDef) is not function
        ):
            continue
        items = (
            [element.value for element in node.value.elements] if isinstance(node.value, cst.Tuple) else [node.value]
        )
        for item in items:
            if taint.of(item) and not isinstance(item, cst.StarredElement) and not _is_batch(training, item):
                yield Change(
                    span=source.outer_span(item),
                    message=f"`{source.code(item)}` becomes the mean over the ranks, the same on each.",
                    replacements=around(source, item, "mean_over_ranks("),
                    helpers=frozenset({"mean_over_ranks"}),
                    shared=True,
                )


def _is_batch(training: Training, item: cst.BaseExpression) -> bool:
    """Tell whether a returned name belongs to a function that is called for each batch: its loss stays one rank's."""
    function = training.flow.function(item)
    return not any(training.flow.function(loop) is function for loop in training.loops)


def _stepped(training: Training, taint: Taint) -> Iterator[Change]:
    """Yield changes for schedulers that look at a value (ReduceLROnPlateau)."""
    source = training.source
    for call in source.nodes(cst.Call):
        if callee_name(call) != "step" or len(call.args) != 1 or not isinstance(call.func, cst.Attribute):
            continue
        if training.flow.callee(call) is not None:  # a step of the script's own
            continue
        value = call.args[0].value
        if taint.of(value) and training.flow.holder(call.func.value) not in training.optimizer_holders:
            yield Change(
                span=source.outer_span(value),
                message="Every rank's learning rate follows the same value.",
                replacements=around(source, value, "mean_over_ranks("),
                helpers=frozenset({"mean_over_ranks"}),
                shared=True,
            )


# --- branches --------------------------------------------------------------------------------------------


def _branches(training: Training, taint: Taint) -> Iterator[Change]:
    source = training.source
    branches: list[cst.If | cst.While] = [*source.nodes(cst.If), *source.nodes(cst.While)]
    for node in branches:
        function = training.flow.function(node)
        if function is not None and function not in training.trains:
            continue
        if not taint.of(node.test):
            continue
        if any(node in source.ancestors(step) for step in training.steps) and isinstance(node, cst.If):
            raise Unclear(
                f"whether it trains on a batch depends on `{source.code(node.test)}`, which differs from rank to rank",
                node,
            )
        if isinstance(node, cst.While) or _leaves_way(source_nodes(training, node)):
            yield Change(
                span=source.outer_span(node.test),
                message=f"`{source.code(node.test)}` differs from rank to rank; all take the same way now.",
                replacements=around(source, node.test, "any_rank("),
                helpers=frozenset({"any_rank"}),
                shared=True,
                severity=Severity.INFO,
            )


def source_nodes(training: Training, node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the break, continue and return statements inside a node."""
    source = training.source
    found: list[cst.CSTNode] = [*source.nodes(cst.Break), *source.nodes(cst.Continue), *source.nodes(cst.Return)]
    return [inner for inner in found if node in source.ancestors(inner)]


def _leaves_way(nodes: list[cst.CSTNode]) -> bool:
    return any(isinstance(node, _DIVERGES) for node in nodes)
