"""## What it does
Removes the options of a GPU from session configurations: `gpu_options=...`, `config.gpu_options.allow_growth = True`,
`per_process_gpu_memory_fraction`, `visible_device_list`. A `tf.GPUOptions` that is then not read any more goes, too.

## Why it matters
They have no effect on an NPU. A reader looks for a limit of memory where none is: the adapter has
`graph_memory_max_size` and `variable_memory_max_size`.

## Example
```python
config = tf.ConfigProto(allow_soft_placement=True)
config.gpu_options.allow_growth = True
```

## Use instead
```python
config = tf.ConfigProto(allow_soft_placement=True)
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = 'NpuOptimizer'
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
```

## Fix safety
Safe. What reads or passes on the options stays and is reported.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000019.html
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000024.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.change import removed_all, without
from jumar.convert.rules.tensorflow.program.gpu import gpu_arguments, gpu_reads, gpu_settings
from jumar.convert.rules.tensorflow.program.names import calls

RULE = Rule(
    code="JM643",
    name="gpu-option",
    summary="A session's configuration has options of a GPU.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="safe",
)

_HAND = "Remove it; the adapter's own limit of memory is graph_memory_max_size."


def find(context: Context) -> Iterator[Proposal]:
    """Remove the options, and report what reads them."""
    source = context.source
    edits = removed_all(source, gpu_settings(source))
    for node, edit in edits.items():
        yield _proposal(context, node, (edit,) if edit is not None else ())
    for name, _, call in calls(source, "ConfigProto"):
        gone = gpu_arguments(call)
        if gone and name:
            covered = context.edited(source.span(gone[0])) or context.covered(source.span(gone[0].value))
            if not covered and not _is_edited(context, call):
                yield _proposal(context, gone[0], without(source, call, gone))
            yield from _unread(context, gone[0])
    for read in gpu_reads(source):
        yield _proposal(context, read, ())


def _is_edited(context: Context, call: cst.Call) -> bool:
    """Tell whether another rule writes the arguments of this configuration anew, without the options."""
    start, end = context.source.span(call)
    return any(
        start <= edit.start and edit.end <= end and edit.end > edit.start
        for proposal in context.proposals
        if proposal.rule.code == "JM641"
        for edit in proposal.replacements
    )


def _proposal(context: Context, node: cst.CSTNode, edits: tuple[Replacement, ...]) -> Proposal:
    return Proposal(
        rule=RULE, span=context.source.span(node), message="Options of a GPU have no effect on an NPU.",
        replacements=edits, action="" if edits else _HAND,
    )  # fmt: skip


def _unread(context: Context, arg: cst.Arg) -> Iterator[Proposal]:
    """Remove `gpu_options = tf.GPUOptions(...)` where only arguments that go have read it."""
    source = context.source
    if not isinstance(arg.value, cst.Name):
        return
    name = arg.value.value
    reads = [node for node in source.nodes(cst.Name) if node.value == name and node not in source.tree.stored]
    if any(not _is_gone(source.parent(node)) for node in reads if node in source.tree.scopes):
        return
    written = [binding.node for binding in source.scope(arg.value).bindings_of(name) if binding.kind == "assign"]
    for node, edit in removed_all(source, written).items():
        span = source.span(node)
        if edit is not None and not context.covered(span):
            yield _proposal(context, node, (edit,))


def _is_gone(parent: cst.CSTNode | None) -> bool:
    return isinstance(parent, cst.Arg) and parent.keyword is not None and parent.keyword.value == "gpu_options"
