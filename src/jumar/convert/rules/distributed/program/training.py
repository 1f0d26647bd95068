"""`Training`: the backward passes of a file, their loops and loaders, and the models that learn.

Nothing here decides; `plan` does. What cannot be followed raises `Unclear` with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import libcst as cst

from jumar.convert.rules.distributed.program.flow import Flow, Holder
from jumar.convert.rules.subject.names import argument
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.scopes import dotted_name

LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})
_OPTIMIZER_BASES = ("torch.optim.", "apex.optimizers.", "torch_optimizer.", "timm.optim.")
_NO_OPTIMIZERS = ("torch.optim.lr_scheduler", "torch.optim.swa_utils")
_MAX_DEPTH = 8

Loop = cst.For | cst.While
NodeT = TypeVar("NodeT", bound=cst.CSTNode)


class Unclear(Exception):
    """The training cannot be followed; says why in one clause, and where."""

    def __init__(self, reason: str, node: cst.CSTNode | None = None, action: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.node = node
        self.action = action


@dataclass(frozen=True, slots=True)
class Model:
    """A model that learns: the holder the training uses it by, and every holder its object passes through."""

    holder: Holder
    origins: frozenset[Holder]


class Training:
    """The training of one file; properties raise Unclear where it cannot be followed."""

    def __init__(self, flow: Flow, model_name: str) -> None:
        self.flow = flow
        self.source = flow.source
        self.model_name = model_name.removeprefix("self.")

    # --- what runs a backward pass -----------------------------------------------------------------------

    @cached_property
    def backwards(self) -> tuple[cst.Call, ...]:
        """Every call of `.backward()`, and of `torch.autograd.backward`."""
        found = [call for call in self.source.nodes(cst.Call) if self._is_backward(call)]
        return tuple(sorted(found, key=self.source.span))

    def _is_backward(self, call: cst.Call) -> bool:
        if self.source.qualified(call.func) == "torch.autograd.backward":
            return True
        return isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"

    @cached_property
    def outside(self) -> tuple[cst.Call, ...]:
        """Calls of functions of other files that are given an optimizer: they train there."""
        found = []
        for call in self.source.nodes(cst.Call):
            if self.flow.callee(call) is None and isinstance(call.func, (cst.Name, cst.Attribute)):
                name = self.source.qualified(call.func) or ""
                foreign = not name or name.startswith(("torch.", "builtins.", "apex.", "torch_npu.", "numpy."))
                given = [self.flow.holder(arg.value) for arg in call.args]
                if not foreign and self.optimizer_holders & {holder for holder in given if holder is not None}:
                    found.append(call)
        return tuple(found)

    @cached_property
    def trains(self) -> frozenset[cst.FunctionDef]:
        """Functions of this file that run a backward pass, themselves or through others."""
        found: set[cst.FunctionDef] = set()
        waiting = [self.flow.function(call) for call in (*self.backwards, *self.outside)]
        while waiting:
            function = waiting.pop()
            if function is None or function in found:
                continue
            found.add(function)
            waiting.extend(self.flow.function(call) for call in self.flow.calls_of.get(function, ()))
        return frozenset(found)

    @cached_property
    def steps(self) -> frozenset[cst.Call]:
        """Calls that train: backward passes, and calls of functions that run one."""
        calls = {call for function in self.trains for call in self.flow.calls_of.get(function, ())}
        made = {call for call in calls if self._makes_only(call)}
        return frozenset({*self.backwards, *self.outside, *(calls - made)})

    def _makes_only(self, call: cst.Call) -> bool:
        target = self.flow.callee(call)
        return target is not None and target[0].name.value == "__init__" and target[0] not in self.trains

    # --- loops and loaders -------------------------------------------------------------------------------

    @cached_property
    def loaders(self) -> frozenset[cst.Call]:
        """The DataLoader calls that training batches come from."""
        found: set[cst.Call] = set()
        for call in self.backwards:
            found |= self._feeding(call, call, 0)
        for call in self.outside:
            found |= self._given_loader(call)
        return frozenset(found)

    @cached_property
    def loops(self) -> frozenset[Loop]:
        """The loops over batches, one around each backward pass."""
        return frozenset(loop for call in self.backwards for loop, _ in self._batch_loops(call, 0))

    def _feeding(self, node: cst.CSTNode, blamed: cst.Call, depth: int) -> set[cst.Call]:
        loops = self._batch_loops(node, depth)
        if not loops:
            raise Unclear("the backward pass is in no loop over a DataLoader of this file", blamed)
        return {call for _, calls in loops for call in calls}

    def _batch_loops(self, node: cst.CSTNode, depth: int) -> list[tuple[Loop, frozenset[cst.Call]]]:
        """Return the innermost loop over a DataLoader around `node`, on every way that leads to it."""
        top = self.flow.function(node)
        for around in self.source.ancestors(node):
            if isinstance(around, (cst.For, cst.While)):
                calls = self._loader_of_loop(around)
                if calls:
                    return [(around, frozenset(calls))]
            if around is top:
                break
        found: list[tuple[Loop, frozenset[cst.Call]]] = []
        for call in self.flow.calls_of.get(top, ()) if top is not None and depth < _MAX_DEPTH else ():
            more = self._batch_loops(call, depth + 1)
            if not more:
                raise Unclear("a way to the backward pass has no loop over a DataLoader of this file", call)
            found.extend(more)
        return found

    def _loader_of_loop(self, loop: Loop) -> set[cst.Call]:
        if isinstance(loop, cst.For):
            found = self.loader_calls(loop.iter)
            if found:
                return found
        taken = (call for call in self.source.nodes(cst.Call) if self.source.qualified(call.func) == "builtins.next")
        here = [call for call in taken if loop in self.source.ancestors(call) and call.args]
        return {found for call in here for found in self.loader_calls(call.args[0].value)}

    def loader_calls(self, node: cst.BaseExpression, seen: frozenset[cst.CSTNode] = frozenset()) -> set[cst.Call]:
        """Return the DataLoader calls that an expression stems from, followed as far as this file goes."""
        if node in seen or len(seen) > 40:
            return set()
        seen |= {node}
        if isinstance(node, cst.Call):
            return self._loader_calls_of_call(node, seen)
        if isinstance(node, cst.Subscript):
            return self._loader_calls_of_item(node, seen)
        if isinstance(node, cst.IfExp):
            return self.loader_calls(node.body, seen) | self.loader_calls(node.orelse, seen)
        holder = self.flow.holder(node)
        if holder is None:
            return set()
        found: set[cst.Call] = set()
        for value in self.flow.values(holder):
            if value.index is None:
                found |= self.loader_calls(value.node, seen)
            elif isinstance(value.node, cst.Call):
                found |= self._returned(value.node, value.index, seen)
        return found

    def _loader_calls_of_call(self, node: cst.Call, seen: frozenset[cst.CSTNode]) -> set[cst.Call]:
        if self.source.qualified(node.func) in LOADERS:
            return {node}
        if self.flow.callee(node) is not None:
            return self._returned(node, None, seen)
        # enumerate(loader), tqdm(loader, …), zip(a, b), iter(loader), a prefetcher: all of them pass batches on
        found = {call for arg in node.args for call in self.loader_calls(arg.value, seen)}
        if isinstance(node.func, cst.Attribute) and not found:
            found = self.loader_calls(node.func.value, seen)
        return found

    def _returned(self, call: cst.Call, index: int | None, seen: frozenset[cst.CSTNode]) -> set[cst.Call]:
        target = self.flow.callee(call)
        if target is None:
            return set()
        if target[0].name.value == "__init__":
            given = (arg.value for arg in call.args)
            return {found for node in given for found in self.loader_calls(node, seen)}
        found: set[cst.Call] = set()
        for value in self.flow.returned(target[0], index):
            if value.index is None:
                found |= self.loader_calls(value.node, seen)
        return found

    def _loader_calls_of_item(self, node: cst.Subscript, seen: frozenset[cst.CSTNode]) -> set[cst.Call]:
        holder = self.flow.holder(node.value)
        key = _literal_key(self, node)
        found: set[cst.Call] = set()
        for value in self.flow.values(holder) if holder is not None else ():
            if isinstance(value.node, cst.Dict) and value.index is None:
                for element in value.node.elements:
                    if isinstance(element, cst.DictElement) and _matches(self, element.key, key):
                        found |= self.loader_calls(element.value, seen)
            elif isinstance(value.node, cst.DictComp) and self.loader_calls(value.node.value, seen):
                raise Unclear("one DataLoader expression makes the training and the validation loader", value.node)
        return found

    def _given_loader(self, call: cst.Call) -> set[cst.Call]:
        """Return the loader that a training function of another file is given."""
        given = [(arg, self.loader_calls(arg.value)) for arg in call.args]
        loaders = [(arg, found) for arg, found in given if found]
        if len(loaders) == 1:
            return loaders[0][1]
        named = [found for arg, found in loaders if "train" in (dotted_name(arg.value) or "").lower()]
        if len(named) == 1:
            return named[0]
        name = dotted_name(call.func)
        raise Unclear(
            f"`{name}` of another file is given {len(loaders)} loaders, so which one trains is not known", call
        )

    # --- optimizers and models ---------------------------------------------------------------------------

    @cached_property
    def optimizers(self) -> tuple[cst.Call, ...]:
        """The calls that make an optimizer."""
        found = []
        for call in self.source.nodes(cst.Call):
            name = self.source.qualified(call.func) or ""
            is_class = name.rpartition(".")[2][:1].isupper()
            if is_class and name.startswith(_OPTIMIZER_BASES) and not name.startswith(_NO_OPTIMIZERS):
                found.append(call)
        return tuple(found)

    @cached_property
    def optimizer_holders(self) -> frozenset[Holder]:
        """The variables and attributes that hold an optimizer."""
        wanted = set(self.optimizers)
        return frozenset(
            holder for holder, values in self.flow.assigned.items() if any(value.node in wanted for value in values)
        )

    def learners(self, optimizer: cst.Call) -> set[Holder]:
        """Return the holders of the models whose parameters an optimizer is given. Raises Unclear."""
        parameters = argument(optimizer, 0, "params")
        found = self._parameters_in(parameters, 0) if parameters is not None else set()
        if not found:
            raise Unclear("the parameters this optimizer is given are not those of a model of this file", optimizer)
        return found

    def _parameters_in(self, node: cst.CSTNode, depth: int) -> set[Holder]:
        found: set[Holder] = set()
        for call in self._inside(node, cst.Call):
            if callee_name(call) in ("parameters", "named_parameters", "modules", "named_modules"):
                root = self._root(call.func.value) if isinstance(call.func, cst.Attribute) else None
                if root is not None:
                    found.add(root)
        if found or depth > _MAX_DEPTH:
            return found
        names: list[cst.CSTNode] = [*self._inside(node, cst.Name), *self._inside(node, cst.Attribute)]
        for name in names:
            holder = self.flow.holder(name)
            for value in self.flow.values(holder) if holder is not None else ():
                found |= self._parameters_in(value.node, depth + 1)
        return found

    def _inside(self, node: cst.CSTNode, *kinds: type[NodeT]) -> Iterator[NodeT]:
        for found in self.source.nodes(*kinds):
            if found is node or node in self.source.ancestors(found):
                yield found

    def _root(self, node: cst.BaseExpression) -> Holder | None:
        """Return the model whose part `node` is: `model.module.fc` → `model`, `self.net.fc` → `self.net`."""
        node = self.flow.stripped(node)
        best: Holder | None = None
        while True:
            best = self.flow.holder(node) or best
            if not isinstance(node, cst.Attribute):
                return best
            node = self.flow.stripped(node.value)

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """The models that learn, each by the holder that the training uses. Raises Unclear."""
        roots = [
            self.flow.origins(holder) for call in self.optimizers for holder in sorted_holders(self.learners(call))
        ]
        named = [origins for origins in roots if any(holder.name == self.model_name for holder in origins)]
        if not named:
            raise Unclear(
                f"`{self.model_name}` is no model whose parameters an optimizer of this file is given",
                action=f"Name the model's variable with -t{_suggestion(roots)}.",
            )
        calls = [call for call in self.source.nodes(cst.Call) if self._in_training(call)]
        called = [self.flow.holder(call.func) for call in calls]
        called += [self._root(call.func.value) for call in calls if isinstance(call.func, cst.Attribute)]
        passed = [self.flow.holder(arg.value) for call in self.steps for arg in call.args]
        used = [holder for holder in (*called, *passed) if holder is not None]
        found: dict[frozenset[Holder], Model] = {}
        for origins in roots:
            group = self._group(origins, roots)
            if group not in found:
                found[group] = Model(self._home(group, used), group)
        return tuple(found.values())

    def _in_training(self, call: cst.Call) -> bool:
        function = self.flow.function(call)
        return function in self.trains or function is None

    def _group(self, origins: frozenset[Holder], roots: list[frozenset[Holder]]) -> frozenset[Holder]:
        """Return every holder that shares an object with `origins`, those of other optimizers among them."""
        group = origins
        for holder in self._all_holders:
            if holder not in group and self.flow.origins(holder) & origins:
                group |= {holder}
        return group

    @cached_property
    def _all_holders(self) -> tuple[Holder, ...]:
        nodes = [*self.source.nodes(cst.Name), *self.source.nodes(cst.Attribute)]
        return tuple(dict.fromkeys(holder for node in nodes if (holder := self.flow.holder(node)) is not None))

    def _home(self, group: frozenset[Holder], used: list[Holder]) -> Holder:
        """Return the holder, no parameter, that the training functions get the model from."""
        homes: dict[Holder, None] = {}
        for holder in used:
            if holder in group:
                homes.update(dict.fromkeys(self._not_parameter(holder, group)))
        if len(homes) > 1:
            # an attribute wins over the variable it was made from: the class trains with what it keeps
            attributes = [holder for holder in homes if holder.of_class is not None]
            homes = dict.fromkeys(attributes or homes)
        if len(homes) != 1:
            names = ", ".join(sorted({holder.name for holder in homes or group}))
            raise Unclear(
                f"the training reaches its model by more ways than one ({names})"
                if homes
                else f"the training does not call the model ({names}) where it can be followed"
            )
        return next(iter(homes))

    def _not_parameter(self, holder: Holder, group: frozenset[Holder], depth: int = 0) -> Iterator[Holder]:
        if not self.flow.is_parameter(holder) or depth > _MAX_DEPTH:
            yield holder
            return
        for value in self.flow.values(holder):
            base = self.flow.holder(self.flow.stripped(value.node))
            if base is not None and base in group and base != holder:
                yield from self._not_parameter(base, group, depth + 1)


def sorted_holders(holders: set[Holder]) -> list[Holder]:
    """Return holders in the order of their names."""
    return sorted(holders, key=lambda holder: holder.name)


def _suggestion(roots: list[frozenset[Holder]]) -> str:
    names = sorted({holder.name for origins in roots for holder in origins})
    return f"; optimizers here are given {', '.join(names)}" if names else ""


def _literal_key(training: Training, node: cst.Subscript) -> str | None:
    index = node.slice[0].slice
    found = literal(training.source, index.value) if isinstance(index, cst.Index) else None
    return found.body if found is not None else None


def _matches(training: Training, node: cst.BaseExpression, key: str | None) -> bool:
    if key is None:
        return True
    found = literal(training.source, node)
    return found is not None and found.body == key
