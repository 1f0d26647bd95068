"""Distributes the data of training loaders over the ranks. Validation loaders stay whole on every rank."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.convert.rules.distributed.program.change import Change, replaced
from jumar.convert.rules.distributed.program.flow import Holder
from jumar.convert.rules.distributed.program.training import LOADERS, Training, Unclear
from jumar.convert.rules.subject.context import keyword
from jumar.convert.rules.subject.names import argument
from jumar.convert.syntax.scopes import is_named

_HELPER = frozenset({"training_loader"})


def changes(training: Training) -> Iterator[Change]:
    """Yield a change for each training loader, and notes about the other loaders and about lengths."""
    source = training.source
    calls = sorted(training.loaders, key=source.span)
    for call in calls:
        _check(training, call)
        yield Change(
            span=source.span(call.func),
            message=f"The training loader `{source.code(call.func)}` shares out its data, in a new order each epoch.",
            replacements=(replaced(source, call.func, "training_loader"),),
            helpers=_HELPER,
            shared=True,
        )
    for call in sorted(source.nodes(cst.Call), key=source.span):
        if source.qualified(call.func) in LOADERS and call not in training.loaders:
            yield Change(
                span=source.span(call),
                severity=Severity.INFO,
                message="This loader feeds no backward pass, so it stays whole: every rank computes the same metric "
                "from every sample, and rank 0 reports it.",
            )
    yield from _evaluated(training)
    yield from _lengths(training)


def _check(training: Training, call: cst.Call) -> None:
    """Raise Unclear for a loader that DistributedSampler cannot feed."""
    for name in ("sampler", "batch_sampler"):
        given = keyword(call, name)
        if given is not None and not (is_named(given.value, "None")):
            raise Unclear(f"the training loader has a {name} of its own", call, "Make it choose this rank's samples.")
    if len([arg for arg in call.args if arg.keyword is None and not arg.star]) > 3:
        raise Unclear("the training loader is given its sampler by position", call, "Name the argument.")
    dataset = argument(call, 0, "dataset")
    owner = training.flow.instance_class(dataset) if dataset is not None else None
    if owner is not None and _is_iterable(training, owner):
        raise Unclear(
            f"the training data is the IterableDataset `{owner.name.value}`, which no sampler shares out",
            call,
            "Let its __iter__ take every WORLD_SIZE-th sample, from the RANK-th on.",
        )


def _is_iterable(training: Training, owner: cst.ClassDef) -> bool:
    names = {training.source.qualified(base.value) or "" for base in owner.bases}
    return any(name.endswith("IterableDataset") for name in names)


def _evaluated(training: Training) -> Iterator[Change]:
    """Warn of loops without a backward pass over a training loader: they see one rank's share."""
    source = training.source
    for loop in source.nodes(cst.For):
        if loop in training.loops or any(loop in source.ancestors(inner) for inner in training.loops):
            continue
        if any(inner in source.ancestors(loop) for inner in training.loops) or not _reads(training, loop):
            continue
        yield Change(
            span=source.span(loop.iter),
            severity=Severity.WARNING,
            message=f"`for … in {source.code(loop.iter)}` goes over the training loader without a backward pass: on "
            "each rank over its share only.",
            action="Sum what it computes over the ranks (sum_over_ranks), or give it a loader of its own.",
            confidence="likely",
        )


def _reads(training: Training, loop: cst.For) -> bool:
    try:
        return bool(training.loader_calls(loop.iter) & training.loaders)
    except Unclear:
        return False


def training_datasets(training: Training) -> set[Holder]:
    """Return the variables that hold a data set of training loaders and of no other loader."""
    found: set[Holder] = set()
    others: set[Holder] = set()
    for call in training.source.nodes(cst.Call):
        if training.source.qualified(call.func) in LOADERS:
            dataset = argument(call, 0, "dataset")
            holder = training.flow.holder(dataset) if dataset is not None else None
            if holder is not None:
                (found if call in training.loaders else others).add(holder)
    return found - others


def is_training_length(training: Training, node: cst.BaseExpression) -> bool:
    """Tell whether an expression is the number of all training samples: `len(loader.dataset)`, `len(train_set)`."""
    if not isinstance(node, cst.Call) or training.source.qualified(node.func) != "builtins.len" or not node.args:
        return False
    counted = node.args[0].value
    if isinstance(counted, cst.Attribute) and counted.attr.value == "dataset":
        calls = training.loader_calls(counted.value)
        return bool(calls) and calls <= training.loaders
    holder = training.flow.holder(counted)
    return holder is not None and holder in training_datasets(training)


def _lengths(training: Training) -> Iterator[Change]:
    """Advise where a number of steps is computed from the length of the whole data set."""
    source = training.source
    for node in source.nodes(cst.BinaryOperation):
        if isinstance(node.operator, (cst.Divide, cst.FloorDivide)) and is_training_length(training, node.left):
            yield Change(
                span=source.span(node),
                severity=Severity.WARNING,
                message=f"`{source.code(node)}` counts the steps of one process; a rank makes fewer.",
                action="Divide by the number of ranks as well, or use len() of the loader.",
                confidence="likely",
            )
