"""The data loaders of a script: their purpose and their options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.rules.manual.program.loops import Loop, Purpose, loops, loops_over
from jumar.convert.rules.subject.context import Context, has_star, last_argument, uses_of
from jumar.convert.rules.subject.names import argument, assigned_values, identifiers, words_of
from jumar.convert.syntax.devices import target_names
from jumar.convert.syntax.scopes import is_named, last_name
from jumar.convert.syntax.source import Source

NAMES = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")

_PARAMETERS = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
    "drop_last",
)  # fmt: skip
_TRAIN = frozenset(
    {"train", "training", "trn", "trainloader", "trainset", "traindata", "trainval", "trainer", "dtrain"}
)
_EVALUATE = frozenset(
    {"val", "valid", "validation", "validate", "test", "testing", "eval", "evaluation", "evaluate", "dev", "valloader"}
    | {"testloader", "testset", "valset", "valdata", "testdata", "evalset", "query", "gallery", "infer", "inference"}
    | {"predict", "validset", "holdout"}
)
_DATA_WORDS = frozenset({"data", "loader", "dataloader", "dataset", "loaders", "dataloaders"})


@dataclass(frozen=True, slots=True, eq=False)
class Loader:
    """One `DataLoader(...)` call, what it is for, and what that was told from."""

    call: cst.Call
    purpose: Purpose
    evidence: tuple[str, ...] = field(default=())


def loaders(context: Context) -> Iterator[Loader]:
    """Yield the loaders this file makes."""
    source = context.source
    all_loops = list(loops(source))
    for reference in uses_of(source, *NAMES):
        if reference.call is not None:
            purpose, evidence = _judge(source, reference.call, all_loops)
            yield Loader(reference.call, purpose, evidence)


def _judge(source: Source, call: cst.Call, all_loops: list[Loop]) -> tuple[Purpose, tuple[str, ...]]:
    found = dict.fromkeys([*_by_names(source, call), *_by_dataset(source, call), *_by_loops(source, call, all_loops)])
    purposes = {purpose for purpose, _ in found}
    evidence = tuple(reason for _, reason in found)
    if len(purposes) == 1:
        return purposes.pop(), evidence
    return "unknown", evidence


def purpose_of_name(name: str) -> Purpose:
    """Tell what a name says: `train_loader`, `valset`; unknown where it says neither or both."""
    words = words_of(name)
    trains, evaluates = bool(words & _TRAIN), bool(words & _EVALUATE)
    if trains == evaluates:
        return "unknown"
    return "train" if trains else "evaluate"


def _by_names(source: Source, call: cst.Call) -> Iterator[tuple[Purpose, str]]:
    statement = source.enclosing(call, cst.Assign, cst.AnnAssign, cst.FunctionDef)
    if isinstance(statement, (cst.Assign, cst.AnnAssign)) and source.parent(call) is statement:
        for name in target_names(source, statement):
            if purpose_of_name(name) != "unknown":
                yield purpose_of_name(name), f"it is called {name}"
    function = source.enclosing(call, cst.FunctionDef)
    if function is not None and words_of(function.name.value) & _DATA_WORDS:
        purpose = purpose_of_name(function.name.value)
        if purpose != "unknown":
            yield purpose, f"{function.name.value} makes it"


def _by_dataset(source: Source, call: cst.Call) -> Iterator[tuple[Purpose, str]]:
    dataset = argument(call, 0, "dataset")
    if dataset is None:
        return
    purpose = _purpose_of_dataset(dataset)
    if purpose != "unknown":
        yield purpose, "its dataset's name or arguments"
    elif isinstance(dataset, (cst.Name, cst.Attribute)):
        made = {_purpose_of_dataset(value) for value in assigned_values(source, last_name(dataset))}
        if len(made) == 1 and "unknown" not in made:
            yield made.pop(), "its dataset is made so"


def _purpose_of_dataset(node: cst.BaseExpression) -> Purpose:
    if isinstance(node, cst.Call):
        flag = next((arg for arg in node.args if arg.keyword is not None and arg.keyword.value in _FLAGS), None)
        if flag is not None and is_named(flag.value, "True", "False"):
            return "train" if is_named(flag.value, "True") else "evaluate"
    purposes = {purpose_of_name(name) for name in identifiers(node)} - {"unknown"}
    return purposes.pop() if len(purposes) == 1 else "unknown"


_FLAGS = ("train", "is_train", "training", "is_training")


def _by_loops(source: Source, call: cst.Call, all_loops: list[Loop]) -> Iterator[tuple[Purpose, str]]:
    fed = [loop for loop in all_loops if loop.fed_by is call]
    statement = source.parent(call)
    if isinstance(statement, cst.Assign) and statement.value is call and len(statement.targets) == 1:
        target = statement.targets[0].target
        if isinstance(target, (cst.Name, cst.Attribute)):
            fed.extend(loops_over(source, target, all_loops))
    for loop in fed:
        if loop.purpose != "unknown":
            verb = "trains" if loop.purpose == "train" else "evaluates"
            yield loop.purpose, f"the loop in line {source.location(loop.node).line} {verb} on it"


def option(source: Source, call: cst.Call, name: str) -> cst.BaseExpression | bool | None:
    """Return the value of a loader's option, False where it is not given, None where that cannot be told."""
    given = argument(call, _PARAMETERS.index(name), name)
    if given is not None:
        return given
    if has_star(call, "*"):
        return None
    for arg in call.args:
        if arg.star == "**":
            keys = keys_of(source, arg.value)
            if keys is None or name in keys:
                return None
    return False


def keys_of(source: Source, node: cst.BaseExpression, depth: int = 0) -> frozenset[str] | None:
    """Return the keys a dictionary may have, None where this file does not show them."""
    if depth > 3:
        return None
    if isinstance(node, cst.Dict):
        return _keys_of_display(source, node, depth)
    if isinstance(node, cst.Call) and source.qualified(node.func) == "builtins.dict":
        if any(arg.keyword is None for arg in node.args):
            return None
        return frozenset(arg.keyword.value for arg in node.args if arg.keyword is not None)
    if isinstance(node, cst.Name):
        return _keys_of_name(source, node, depth)
    return None


def _keys_of_display(source: Source, node: cst.Dict, depth: int) -> frozenset[str] | None:
    keys: set[str] = set()
    for element in node.elements:
        if isinstance(element, cst.StarredDictElement):
            inner = keys_of(source, element.value, depth + 1)
            if inner is None:
                return None
            keys |= inner
        elif isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
            keys.add(str(element.key.evaluated_value))
        else:
            return None
    return frozenset(keys)


def _keys_of_name(source: Source, node: cst.Name, depth: int) -> frozenset[str] | None:
    bindings = source.scope(node).bindings_of(node.value)
    keys: set[str] = set()
    parts = [binding.value for binding in bindings]
    parts.extend(
        call.args[0].value
        for call in source.nodes(cst.Call)
        if isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "update"
        and isinstance(call.func.value, cst.Name)
        and call.func.value.value == node.value
        and call.args
    )
    keys.update(
        str(element.slice.value.evaluated_value)
        for target in source.nodes(cst.Subscript)
        if target in source.tree.stored and isinstance(target.value, cst.Name) and target.value.value == node.value
        for element in target.slice
        if isinstance(element.slice, cst.Index) and isinstance(element.slice.value, cst.SimpleString)
    )
    for value in parts:
        inner = None if value is None else keys_of(source, value, depth + 1)
        if inner is None:
            return None
        keys |= inner
    return frozenset(keys) if bindings else None


def is_off(given: cst.BaseExpression | bool | None) -> bool:
    """Tell whether an option of truth is not given, or given as False."""
    return given is False or is_literal(given, "False")


def switched_on(source: Source, call: cst.Call, name: str, given: cst.BaseExpression | bool | None) -> Replacement:
    """Return the edit that gives an option that `is_off` the value True."""
    if isinstance(given, cst.Name):
        return Replacement(*source.span(given), "True")
    return last_argument(source, call, f"{name}=True")


def is_literal(node: cst.BaseExpression | bool | None, text: str) -> bool:
    """Tell whether an option is written as this very constant (`False`, `0`, `None`)."""
    if isinstance(node, cst.Name):
        return node.value == text
    return isinstance(node, cst.Integer) and node.value == text
