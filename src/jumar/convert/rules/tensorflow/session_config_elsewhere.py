"""## What it does
Reports sessions whose configuration comes from where this file does not show it: another module, a parameter,
`**kwargs`.

## Why it matters
The session runs on the NPU only where that configuration has `NpuOptimizer`. `jumar convert` prepares every
`tf.ConfigProto` that the project makes; one that a library makes it does not see.

## Example
```python
sess = tf.Session(config=library.session_config())
```

## Use instead
```python
config = library.session_config()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
sess = tf.Session(config=config)
```

## Fix safety
No fix: the configuration may have been prepared already.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000019.html
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.names import uses
from jumar.convert.rules.tensorflow.program.sessions import SESSIONS, origin, prepares, sessions

RULE = Rule(
    code="JM642",
    name="session-config-elsewhere",
    summary="A session's configuration comes from where the file does not show it.",
    severity=Severity.WARNING,
    doc=__doc__,
)

_ACTION = "See that it gets NpuOptimizer where it is made; `jumar rule JM642` has the lines."


def find(context: Context) -> Iterator[Proposal]:
    """Report sessions with a configuration of unknown origin, and classes of sessions that are not called."""
    source = context.source
    for session in sessions(source):
        where = origin(source, session, context.project.session_configs)
        text = source.code(session.config.value) if session.config is not None else "the unpacked arguments"
        if where not in ("elsewhere", "stars") or prepares(source, session.call, text):
            continue
        yield Proposal(
            rule=RULE, span=source.span(session.call), confidence="likely", action=_ACTION,
            message=f"The configuration of this session comes from `{_short(text)}`, which this file does not make.",
        )  # fmt: skip
    for found in uses(source, *SESSIONS):
        if found.call is None and not context.covered(source.span(found.node)) and not _is_alias(context, found.node):
            yield Proposal(
                rule=RULE, span=source.span(found.node), confidence="likely", action=_ACTION,
                message=f"`{source.code(found.node)}` is passed on here, so its sessions are not seen.",
            )  # fmt: skip


def _is_alias(context: Context, node: object) -> bool:
    """Tell whether a session's class is given another name, which is followed (`Session = tf.Session`)."""
    import libcst as cst

    parent = context.source.parent(node) if isinstance(node, cst.CSTNode) else None
    if isinstance(parent, cst.Assign):
        return all(isinstance(target.target, cst.Name) for target in parent.targets)
    return isinstance(parent, (cst.Annotation, cst.Attribute))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."
