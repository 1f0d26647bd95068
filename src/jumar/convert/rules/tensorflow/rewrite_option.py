"""## What it does
Reports settings of TensorFlow's graph rewrites that the adapter's guide rules out: `disable_model_pruning` on,
`function_optimization`, `constant_folding`, `shape_optimization`, `arithmetic_optimization`, `loop_optimization`,
`dependency_optimization` or `layout_optimizer` off, and options that are copied over the whole configuration.

## Why it matters
The adapter rests on these rewrites. `graph_options.CopyFrom` takes NpuOptimizer away again.

## Example
```python
config.graph_options.rewrite_options.constant_folding = RewriterConfig.OFF
```

## Use instead
```python
pass
```

## Fix safety
No fix: the setting was made for a reason.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommunity/850/migration/tfmigr2/tfmigr2_000024.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM669",
    name="rewrite-option",
    summary="A graph rewrite that the adapter needs is switched off.",
    severity=Severity.WARNING,
    doc=__doc__,
)

_NEEDED = frozenset(
    {
        "function_optimization", "constant_folding", "shape_optimization", "arithmetic_optimization",
        "loop_optimization", "dependency_optimization", "layout_optimizer",
    }
)  # fmt: skip
_COPIED = ("graph_options.CopyFrom", "rewrite_options.CopyFrom")


def find(context: Context) -> Iterator[Proposal]:
    """Report settings of rewrites."""
    source = context.source
    for node in source.nodes(cst.Assign):
        name = source.code(node.targets[0].target).rpartition(".")[2]
        value = source.code(node.value)
        if (name in _NEEDED and value.endswith("OFF")) or (name == "disable_model_pruning" and value == "True"):
            yield _proposal(context, node, f"The adapter needs `{name}` as it is by default.")
    for found in source.nodes(cst.Call):
        if source.code(found.func).endswith(_COPIED):
            yield _proposal(context, found, "What is copied here replaces NpuOptimizer in the configuration.")


def _proposal(context: Context, node: cst.CSTNode, message: str) -> Proposal:
    return Proposal(rule=RULE, span=context.source.span(node), message=message, action="Remove it, or do it before.")
