"""Lets one rank do what must happen once: saving, folders, logs of metrics, progress bars, downloads."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.convert.model.edits import Replacement
from jumar.convert.rules.distributed.program.change import Change, around
from jumar.convert.rules.distributed.program.library_names import (
    BARS,
    FETCHES,
    PRETRAINED,
    READS,
    WRITERS,
    WRITES,
    WRITING_METHODS,
)
from jumar.convert.rules.distributed.program.training import Training
from jumar.convert.rules.subject.context import has_star, keyword, last_argument
from jumar.convert.rules.subject.names import argument
from jumar.convert.syntax.literals import literal

_FILE_MODE = re.compile(r"[wax]")


def changes(training: Training) -> Iterator[Change]:
    """Yield a change for each place that writes, shows or fetches something."""
    source = training.source
    saves = any(source.qualified(call.func) in WRITES for call in source.nodes(cst.Call))
    for call in sorted(source.nodes(cst.Call), key=source.span):
        if _in_worker(training, call):
            continue
        name = source.qualified(call.func) or ""
        yield from _written(training, call, name)
        yield from _shown(training, call, name)
        yield from _fetched(training, call, name)
        if saves and name in READS:
            yield from _read(training, call)


def _in_worker(training: Training, node: cst.CSTNode) -> bool:
    """Tell whether code is part of a data set, a sampler or a model, which loader workers and ranks run apart."""
    source = training.source
    owner = source.enclosing(node, cst.ClassDef)
    if owner is None:
        return False
    methods = source.tree.own_scopes[owner].bindings
    return any(name in methods for name in ("__getitem__", "__iter__", "forward"))


def _written(training: Training, call: cst.Call, name: str) -> Iterator[Change]:
    source = training.source
    is_method = isinstance(call.func, cst.Attribute) and not name and call.func.attr.value in WRITING_METHODS
    if name in WRITES or is_method:
        yield _only_on_rank0(training, call)
    elif name == "builtins.open" and _opens_to_write(source_mode(training, call)):
        yield _path(training, call, "file")
    elif name == "logging.FileHandler":
        yield _path(training, call, "filename")
    elif name == "logging.basicConfig" and (named := keyword(call, "filename")) is not None:
        yield _path_of(training, named.value)
    elif name in WRITERS:
        yield Change(
            span=source.span(call.func),
            message="Only rank 0 writes event files.",
            replacements=around(source, call.func, "rank0_object("),
            helpers=frozenset({"rank0_object"}),
        )
    elif name == "wandb.init" and keyword(call, "mode") is None and not has_star(call, "**"):
        text = "mode=None if RANK == 0 else 'disabled'"
        yield Change(
            span=source.span(call.func),
            message="Only rank 0 reports to Weights & Biases.",
            replacements=(last_argument(source, call, text),),
        )


def _only_on_rank0(training: Training, call: cst.Call) -> Change:
    source = training.source
    code = source.code(call.func)
    if not isinstance(source.parent(call), cst.Expr):
        return Change(
            span=source.span(call.func),
            severity=Severity.WARNING,
            message=f"`{code}` runs on every rank, because its result is used.",
            action="Let rank 0 alone do it, or give each rank a place of its own.",
        )
    return Change(
        span=source.span(call.func),
        message=f"Only rank 0 does `{code}`.",
        replacements=around(source, call.func, "rank0_only("),
        helpers=frozenset({"rank0_only"}),
    )


def source_mode(training: Training, call: cst.Call) -> str:
    """Return the mode a call of `open` is given, as far as it is written there."""
    node = argument(call, 1, "mode")
    text = literal(training.source, node) if node is not None else None
    return text.body if text is not None else ""


def _opens_to_write(mode: str) -> bool:
    return _FILE_MODE.search(mode) is not None


def _path(training: Training, call: cst.Call, name: str) -> Change:
    found = argument(call, 0, name)
    if found is not None:
        return _path_of(training, found)
    return Change(
        span=training.source.span(call),
        severity=Severity.WARNING,
        message="Every rank writes this file.",
        action="Let rank 0 alone write it.",
    )


def _path_of(training: Training, node: cst.BaseExpression) -> Change:
    return Change(
        span=training.source.outer_span(node),
        message="Only what rank 0 writes to this file is kept.",
        replacements=around(training.source, node, "rank0_path("),
        helpers=frozenset({"rank0_path"}),
    )


def _shown(training: Training, call: cst.Call, name: str) -> Iterator[Change]:
    if name in BARS and keyword(call, "disable") is None and not has_star(call, "**"):
        yield Change(
            span=training.source.span(call.func),
            message="Only rank 0 shows progress.",
            replacements=(last_argument(training.source, call, "disable=RANK != 0"),),
        )


def _fetched(training: Training, call: cst.Call, name: str) -> Iterator[Change]:
    source = training.source
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    fetches = (
        FETCHES.fullmatch(name) is not None or method == "from_pretrained" or _downloads(source_code(training, call))
    )
    if fetches and not has_star(call, "*"):
        yield Change(
            span=source.span(call.func),
            message=f"`{source.code(call.func)}` runs on the first rank of each machine, then on the others.",
            replacements=around(source, call.func, "rank0_first("),
            helpers=frozenset({"rank0_first"}),
            shared=True,
        )


def source_code(training: Training, call: cst.Call) -> dict[str, str]:
    """Return the keyword arguments of a call with their source text."""
    return {arg.keyword.value: training.source.code(arg.value) for arg in call.args if arg.keyword is not None}


def _downloads(options: dict[str, str]) -> bool:
    if options.get("download", "False") not in ("False", "None"):
        return True
    return any(options.get(name, "None") not in ("None", "False") for name in PRETRAINED)


def _read(training: Training, call: cst.Call) -> Iterator[Change]:
    """Yield the change of a load that may read what rank 0 saved."""
    source = training.source
    if any(loop in source.ancestors(call) for loop in training.loops) or not call.args or call.args[0].star:
        return
    path = call.args[0].value
    start, end = source.outer_span(path)
    yield Change(
        span=(start, end),
        message="What rank 0 saves is whole before another rank reads it.",
        replacements=(Replacement(start, start, "after_rank0("), Replacement(end, end, ")")),
        helpers=frozenset({"after_rank0"}),
        shared=True,
    )
