"""## What it does
Writes the adapter's functions for Horovod's. In scripts of TensorFlow 1: `rank`, `size`, `local_rank`, `local_size`,
`init`, `shutdown`, `DistributedOptimizer`, `allreduce`, `allgather`, `broadcast`. In scripts of TensorFlow 2:
the ranks from the environment, `DistributedOptimizer`, `DistributedGradientTape`, `allreduce`,
`broadcast_variables`. The import goes when nothing uses it any more. All else is reported.

## Why it matters
Horovod's collectives run on GPUs. The NPU's are operators of the adapter; they must be initialised in a session before
a rank is asked for.

## Example
```python
import horovod.tensorflow as hvd
optimizer = hvd.DistributedOptimizer(tf.train.AdamOptimizer(0.001 * hvd.size()))
```

## Use instead
```python
optimizer = npu_distributed_optimizer_wrapper(tf.train.AdamOptimizer(0.001 * get_rank_size()))
```

## Fix safety
Safe for one process. `init_session.run(npu_shutdown)` belongs at the end of the program. Options of
DistributedOptimizer (compression, sparse gradients) have no counterpart and go.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000024.html
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/800/migration/tfmigr2/tfmigr2_000019.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program import horovod as words
from jumar.convert.rules.tensorflow.program.change import around, removed, removed_all, replaced, without
from jumar.convert.rules.tensorflow.program.names import horovod, name_of, references
from jumar.convert.rules.tensorflow.program.style import DEVICE_IMPORT, adapter, style_of
from jumar.convert.rules.tensorflow.program.tape import gradients_of
from jumar.convert.syntax.source import Reference, Source, imported_name

RULE = Rule(
    code="JM649",
    name="horovod-call",
    summary="A function of Horovod is used.",
    severity=Severity.ERROR,
    doc=__doc__,
    safety="safe",
)

Change = tuple[tuple[Replacement, ...], tuple[str, ...], str]
"""Replacements, imports they need, and what is said."""

_LAUNCHERS = ("horovod.run", "horovod.spark.run", "horovod.ray.RayExecutor")
_HAND = "Write it with hccl_ops, npu_ops or npu_device.distribute by hand, or leave it out."


def find(context: Context) -> Iterator[Proposal]:
    """Write the adapter's functions; report what has none; remove the import that is not needed any more."""
    source = context.source
    change = _v1 if style_of(context) == "v1" else _v2
    left = 0
    for started in source.references:
        if started.name in _LAUNCHERS and started.call is not None:
            yield Proposal(
                rule=RULE, span=source.span(started.node), message=f"`{started.name}` starts processes with Horovod.",
                action="Start one process a device, with RANK_ID, RANK_SIZE and ASCEND_DEVICE_ID set.",
            )  # fmt: skip
    for found in references(source):
        name = horovod(found.name)
        if not name or context.edited(source.span(found.node)) or context.within_covered(source.span(found.node)):
            continue
        made = change(context, name, found) if found.certain and found.call is not None else None
        if made is None and _is_argument_of_optimizer(context, found):
            continue
        left += made is None
        edits, needed, message = made or ((), (), f"`{name}` of Horovod has no counterpart that is written by itself.")
        yield Proposal(
            rule=RULE, span=source.span(found.node), replacements=edits, requires=needed, message=message,
            action="" if made else _HAND,
        )  # fmt: skip
    unresolved = [each for each in context.proposals if each.rule.code == "JM650" and not each.replacements]
    if not left and not unresolved:
        yield from _without_import(context)


def _is_argument_of_optimizer(context: Context, found: Reference) -> bool:
    """Tell whether a name (`hvd.Compression.fp16`, `hvd.Average`) is an argument that goes with its call."""
    return any(
        isinstance(outer, cst.Call) and horovod(name_of(context.source, outer.func) or "") in _DROPPING
        for outer in context.source.ancestors(found.node)
    )


_DROPPING = ("DistributedOptimizer", "DistributedGradientTape", "allreduce")


def _v1(context: Context, name: str, found: Reference) -> Change | None:
    source, call, names = context.source, found.call, adapter(context)
    assert call is not None
    if name in words.RANKS:
        new = words.RANKS[name]
        return (replaced(source, found.node, new),), (names.name(new),), f"`{new}` is the adapter's `hvd.{name}`."
    if name == "init":
        edit = words.start(context, call)
        needed = (names.name("npu_ops"), names.name("RewriterConfig"))
        message = "The collectives are initialised in a session of their own."
        return None if edit is None else ((edit,), needed, message)
    if name == "shutdown" and isinstance(source.parent(call), cst.Expr) and _starts_here(context, call):
        return (replaced(source, call, "init_session.run(npu_shutdown)"),), (), "The collectives are shut down."
    if name == "DistributedOptimizer" and call.args:
        new = "npu_distributed_optimizer_wrapper"
        edits = (replaced(source, found.node, new), *_first_only(context, call))
        return edits, (names.name(new),), f"The wrapped optimizer averages the gradients of all NPUs{_dropped(call)}."
    return _collective_v1(context, name, found)


def _starts_here(context: Context, call: cst.Call) -> bool:
    """Tell whether `hvd.init()` stands in the same function or the module, so that its session has a name here."""
    source = context.source
    here = source.enclosing(call, cst.FunctionDef)
    return any(
        horovod(found.name) == "init" and source.enclosing(found.node, cst.FunctionDef) in (here, None)
        for found in references(source)
    )


def _dropped(call: cst.Call) -> str:
    """Return what is said of the options that go."""
    names = [arg.keyword.value for arg in call.args[1:] if arg.keyword is not None]
    return f"; {', '.join(names)} of Horovod has no counterpart and goes" if names else ""


def _first_only(context: Context, call: cst.Call) -> tuple[Replacement, ...]:
    """Return the removal of all arguments but the first."""
    return without(context.source, call, list(call.args[1:]))


def _collective_v1(context: Context, name: str, found: Reference) -> Change | None:
    source, call, names = context.source, found.call, adapter(context)
    if call is None or not call.args or call.args[0].star:
        return None
    needed = (names.name("hccl_ops"),)
    end = source.outer_span(call.args[0].value)[1]
    message = f"`hccl_ops.{name}` is the adapter's `hvd.{name}`."
    head = (replaced(source, found.node, f"hccl_ops.{name}"), *_first_only(context, call))
    if name == "allreduce":
        how = words.reduction(source, call)
        if how is None:
            return None
        added = Replacement(end, end, f', "{"sum" if how == "mean" else how}"')
        if how != "mean":
            return (*head, added), needed, message
        mean = around(source, call, "(", " / get_rank_size())")
        return (mean[0], *head, added, mean[1]), (*needed, names.name("get_rank_size")), message
    if name == "allgather":
        added = Replacement(end, end, ", get_rank_size()")
        return (*head, added), (*needed, names.name("get_rank_size")), message
    return None


def _v2(context: Context, name: str, found: Reference) -> Change | None:
    source, call = context.source, found.call
    assert call is not None
    if name in words.VARIABLES:
        text = words.variable(name, context.quote)
        return (replaced(source, call, text),), ("import os",), f"The environment tells a process its {name}."
    if name in ("init", "shutdown") and isinstance(source.parent(call), cst.Expr):
        edit = removed(source, call)
        return None if edit is None else ((edit,), (), "Opening the NPU initialises its collectives.")
    if name == "DistributedOptimizer" and call.args:
        new = "npu_device.distribute.npu_distributed_keras_optimizer_wrapper"
        edits = (replaced(source, found.node, new), *_first_only(context, call))
        return edits, (DEVICE_IMPORT,), f"The wrapped optimizer averages the gradients of all NPUs{_dropped(call)}."
    if name == "DistributedGradientTape":
        averaged = gradients_of(source, call)
        said = "The gradients are averaged where they are asked for."
        return None if averaged is None else (averaged, (DEVICE_IMPORT,), said)
    return _collective_v2(context, name, found)


def _collective_v2(context: Context, name: str, found: Reference) -> Change | None:
    source, call = context.source, found.call
    if call is None or not call.args:
        return None
    if name == "broadcast_variables":
        sent = replaced(source, found.node, "npu_device.distribute.broadcast")
        return (sent,), (DEVICE_IMPORT,), "The variables of one NPU are sent to all others."
    how = words.reduction(source, call) if name == "allreduce" else None
    if how is None:
        return None
    end = source.outer_span(call.args[0].value)[1]
    edits = (
        replaced(source, found.node, "npu_device.distribute.all_reduce"),
        *_first_only(context, call),
        Replacement(end, end, f', "{how}"'),
    )
    return edits, (DEVICE_IMPORT,), "`npu_device.distribute.all_reduce` is the adapter's `hvd.allreduce`."


def _without_import(context: Context) -> Iterator[Proposal]:
    source = context.source
    statements = [node for node in source.nodes(cst.Import) if len(node.names) == 1 and _brings_functions(source, node)]
    taken = [node for node in source.nodes(cst.ImportFrom) if _brings_functions(source, node)]
    for node, edit in removed_all(source, [*statements, *taken]).items():
        if edit is not None:
            yield Proposal(
                rule=RULE, span=source.span(node), replacements=(edit,), message="Nothing uses Horovod any more."
            )


def _brings_functions(source: Source, node: cst.Import | cst.ImportFrom) -> bool:
    """Tell whether an import brings Horovod's functions for TensorFlow, or `horovod` itself that nothing reads."""
    if isinstance(node.names, cst.ImportStar):
        return False
    names = [imported_name(alias, node) or "" for alias in node.names]
    if names == ["horovod"]:
        return not any(found.name.startswith("horovod.") and horovod(found.name) is None for found in source.references)
    return all(horovod(name) is not None for name in names)
