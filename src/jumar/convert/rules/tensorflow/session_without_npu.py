"""## What it does
Finds every `tf.Session`, `InteractiveSession`, `MonitoredTrainingSession`, session creator and `managed_session`, and
every `tf.ConfigProto`. The configuration gets the custom optimizer `NpuOptimizer`; `remapping` and
`memory_optimization` are switched off. A session without a configuration gets one. A configuration that is built
elsewhere is prepared where it is built, also in a function. Its other options stay.

## Why it matters
The adapter takes the graph of a session only where its configuration names `NpuOptimizer`. Without it the script runs
on the host's CPU, without a word. The two rewrites of TensorFlow conflict with the adapter's own.

## Example
```python
with tf.Session() as sess:
    sess.run(train_op)
```

## Use instead
```python
npu_config = tf.ConfigProto()
custom_op = npu_config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = 'NpuOptimizer'
npu_config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
npu_config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
with tf.Session(config=npu_config) as sess:
    sess.run(train_op)
```

## Fix safety
Safe. Where no statement fits before the session (a lambda, a default, an `elif`), the same is written as one argument
`graph_options`. A configuration that is only given to `RunConfig` stays: NPURunConfig prepares it.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000019.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.code import default_indent, lines_after, lines_before
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.change import free_name, replaced, with_argument, without
from jumar.convert.rules.tensorflow.program.configuration import Writing, hoisting, module_of
from jumar.convert.rules.tensorflow.program.gpu import gpu_arguments
from jumar.convert.rules.tensorflow.program.names import calls
from jumar.convert.rules.tensorflow.program.sessions import (
    PROTO,
    SessionCall,
    origin,
    prepares,
    serves_estimator_only,
    sessions,
)
from jumar.convert.syntax.source import Reference

RULE = Rule(
    code="JM641",
    name="session-without-npu",
    summary="A session's configuration does not name the NPU's optimizer.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)

_ADDED = "The session runs on the NPU: its configuration has NpuOptimizer, without the rewrites that conflict with it."
_ESTIMATOR = ("estimator.RunConfig", "NPURunConfig")
_HAND = "Add NpuOptimizer to the configuration of this session by hand."


def find(context: Context) -> Iterator[Proposal]:
    """Prepare every configuration, and give one to sessions that have none."""
    writing = Writing.of(context)
    taken: set[cst.Call] = set()
    for session in sessions(context.source):
        where = origin(context.source, session, context.project.session_configs)
        if where == "none":
            yield _with_new(context, session, writing)
        elif where == "built here" and session.config is not None:
            built = session.config.value
            assert isinstance(built, cst.Call)
            taken.add(built)
            if not _is_prepared(context, built):
                yield _built_in_call(context, session, built, writing)
        elif where == "default None":
            yield from _where_none(context, session, writing)
    for _, reference, call in calls(context.source, PROTO):
        if call not in taken and not _is_prepared(context, call):
            yield from _made(context, reference, call, writing)


def _is_prepared(context: Context, call: cst.Call) -> bool:
    return "NpuOptimizer" in context.source.code(call)


def _proposal(
    context: Context, node: cst.CSTNode, edits: tuple[Replacement, ...], requires: tuple[str, ...]
) -> Proposal:
    return Proposal(
        rule=RULE, span=context.source.span(node), message=_ADDED, replacements=edits, requires=requires,
        action="" if edits else _HAND,
    )  # fmt: skip


def _with_new(context: Context, session: SessionCall, writing: Writing) -> Proposal:
    """Give a configuration to a session that has none."""
    source, call = context.source, session.call
    module, needed = module_of(source, session.reference, call)
    statement = hoisting(source, call)
    requires = (*writing.requires, *needed)
    if statement is None:
        text = f"{module}.{PROTO}({writing.argument(module)})"
        return _proposal(context, call, _passing(context, session, text), requires)
    name = free_name(source, "npu_config")
    lines = lines_before(source, statement, f"{name} = {module}.{PROTO}()", *writing.lines(name))
    return _proposal(context, call, (lines, *_passing(context, session, name)), requires)


def _passing(context: Context, session: SessionCall, text: str) -> tuple[Replacement, ...]:
    if session.config is not None:
        return (replaced(context.source, session.config.value, text),)
    return with_argument(context.source, session.call, f"config={text}")


def _built_in_call(context: Context, session: SessionCall, built: cst.Call, writing: Writing) -> Proposal:
    """Prepare a configuration that is made in the session's own arguments, on lines before the session."""
    source = context.source
    statement = hoisting(source, session.call)
    if statement is None or "#" in source.code(built) or "\n" in source.code(built):
        return _in_place(context, built, session.reference, writing)
    name = free_name(source, "npu_config")
    text = _without_gpu(context, built)
    lines = lines_before(source, statement, f"{name} = {text}", *writing.lines(name))
    return _proposal(context, session.call, (lines, replaced(source, built, name)), writing.requires)


def _without_gpu(context: Context, call: cst.Call) -> str:
    from jumar.convert.model.edits import apply

    source = context.source
    start, end = source.span(call)
    edits = sorted(without(source, call, gpu_arguments(call)))
    return apply(source.text.text[start:end], edits, start)


def _in_place(context: Context, call: cst.Call, reference: Reference | None, writing: Writing) -> Proposal:
    """Prepare a configuration by an argument of its own constructor."""
    source = context.source
    if any(arg.keyword is not None and arg.keyword.value == "graph_options" for arg in call.args):
        return _proposal(context, call, (), ())
    module, needed = module_of(source, reference, call)
    edits = with_argument(source, call, writing.argument(module), gpu_arguments(call))
    return _proposal(context, call, edits, (*writing.requires, *needed))


def _where_none(context: Context, session: SessionCall, writing: Writing) -> Iterator[Proposal]:
    """Prepare the configuration of a function that makes a session and may be given none."""
    source = context.source
    assert session.config is not None
    name = source.code(session.config.value)
    statement = hoisting(source, session.call)
    if prepares(source, session.call, name):
        return
    if statement is None:
        yield _proposal(context, session.call, (), ())
        return
    module, needed = module_of(source, session.reference, session.call)
    step = default_indent(source)
    body = [f"{name} = {module}.{PROTO}()", *writing.lines(name)]
    lines = lines_before(source, statement, f"if {name} is None:", *(f"{step}{line}" for line in body))
    yield _proposal(context, session.call, (lines,), (*writing.requires, *needed))


def _made(context: Context, reference: Reference, call: cst.Call, writing: Writing) -> Iterator[Proposal]:
    """Prepare a configuration that is not made in a session's arguments."""
    source = context.source
    parent = source.parent(call)
    if isinstance(parent, cst.Arg) and parent.keyword is not None and parent.keyword.value == "session_config":
        return
    target = _target(parent)
    if target is not None:
        name = source.code(target)
        if prepares(source, call, name) or serves_estimator_only(source, target):
            return
        statement = hoisting(source, call)
        if isinstance(statement, cst.SimpleStatementLine):
            yield _proposal(context, call, (lines_after(source, statement, *writing.lines(name)),), writing.requires)
            return
    statement = hoisting(source, call)
    if isinstance(parent, cst.Return) and statement is not None and "#" not in source.code(call):
        name = free_name(source, "npu_config")
        lines = lines_before(source, statement, f"{name} = {_without_gpu(context, call)}", *writing.lines(name))
        yield _proposal(context, call, (lines, replaced(source, call, name)), writing.requires)
        return
    yield _in_place(context, call, reference, writing)


def _target(parent: cst.CSTNode | None) -> cst.BaseExpression | None:
    """Return the one name or attribute that a configuration is assigned to."""
    found: cst.BaseExpression | None = None
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        found = parent.targets[0].target
    elif isinstance(parent, cst.AnnAssign):
        found = parent.target
    return found if isinstance(found, (cst.Name, cst.Attribute)) else None
