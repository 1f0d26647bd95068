"""## What it does
Reports XLA: `jit_compile=True`, `global_jit_level`, `tf.config.optimizer.set_jit`, `tf.xla`, `experimental_compile`.

## Why it matters
XLA compiles for GPUs and CPUs. A function that it has taken does not reach the adapter.

## Example
```python
config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
```

## Use instead
```python
pass
```

## Fix safety
No fix: without XLA a script may need other options.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000151.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.names import api, references
from jumar.convert.syntax.scopes import is_named

RULE = Rule(
    code="JM658",
    name="tensorflow-xla",
    summary="XLA is asked for, and the adapter compiles itself.",
    severity=Severity.WARNING,
    doc=__doc__,
)

_ARGUMENTS = ("jit_compile", "experimental_compile")
_ATTRIBUTES = ("global_jit_level", "jit_compile")


def find(context: Context) -> Iterator[Proposal]:
    """Report what asks for XLA."""
    source = context.source
    for arg in source.nodes(cst.Arg):
        if arg.keyword is not None and arg.keyword.value in _ARGUMENTS and not is_named(arg.value, "False", "None"):
            yield _proposal(context, arg)
    for node in source.nodes(cst.Attribute):
        if node.attr.value in _ATTRIBUTES and node in source.tree.stored:
            yield _proposal(context, node)
    for found in references(source):
        name = api(found.name) or ""
        if name.startswith(("xla.", "contrib.compiler.", "compiler.xla")) or name == "config.optimizer.set_jit":
            yield _proposal(context, found.node)


def _proposal(context: Context, node: cst.CSTNode) -> Proposal:
    return Proposal(
        rule=RULE, span=context.source.span(node), message="XLA takes the graph away from the adapter.",
        action="Switch it off.",
    )  # fmt: skip
