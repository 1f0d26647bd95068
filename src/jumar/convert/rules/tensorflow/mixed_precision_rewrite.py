"""## What it does
Writes the adapter's loss scaling for TensorFlow 1's mixed precision: `enable_mixed_precision_graph_rewrite(optimizer)`
becomes an `NPULossScaleOptimizer` with the manager for its `loss_scale` (`'dynamic'`, a number), and the
session's configuration gets `precision_mode` `allow_mix_precision` (JM641). The classes of `tf.contrib.mixed_precision`
become those of the adapter.

## Why it matters
TensorFlow's rewrite of the graph is for GPUs. On an NPU the adapter chooses the operators that compute in float16.

## Example
```python
optimizer = tf.train.experimental.enable_mixed_precision_graph_rewrite(optimizer, loss_scale=128)
```

## Use instead
```python
optimizer = NPULossScaleOptimizer(optimizer, FixedLossScaleManager(loss_scale=128))
```

## Fix safety
Safe. The dynamic scale begins with 2**15 and doubles after 2,000 good steps, as TensorFlow's does. Estimators: pass
`precision_mode="allow_mix_precision"` to NPURunConfig; this is reported.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/800/API/tfadapter1x/tfmigr1_tfadapi_0064.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.change import keyword_for, replaced, without
from jumar.convert.rules.tensorflow.program.configuration import MIXED
from jumar.convert.rules.tensorflow.program.names import api, name_of, references
from jumar.convert.rules.tensorflow.program.style import adapter, style_of
from jumar.convert.syntax.source import Reference

RULE = Rule(
    code="JM656",
    name="mixed-precision-rewrite",
    summary="TensorFlow's own mixed precision is for GPUs.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)

_OPTIMIZER = "NPULossScaleOptimizer"
_FIXED, _DYNAMIC = "FixedLossScaleManager", "ExponentialUpdateLossScaleManager"
_WRAPPING = (
    *MIXED, "train.experimental.MixedPrecisionLossScaleOptimizer",
    "mixed_precision.MixedPrecisionLossScaleOptimizer",
)  # fmt: skip
_RENAMED: Mapping[str, str] = {
    "contrib.mixed_precision.LossScaleOptimizer": _OPTIMIZER,
    f"contrib.mixed_precision.{_FIXED}": _FIXED,
    f"contrib.mixed_precision.{_DYNAMIC}": _DYNAMIC,
}
_BEGIN = "init_loss_scale=2**15, incr_every_n_steps=2000, decr_every_n_nan_or_inf=1, decr_ratio=0.5"


def find(context: Context) -> Iterator[Proposal]:
    """Write the adapter's loss scaling."""
    if style_of(context) != "v1":
        return
    mixed = False
    for found in references(context.source):
        name = api(found.name) or ""
        if name in _WRAPPING and found.certain and found.call is not None:
            mixed = True
            yield _wrapped(context, found, found.call)
        elif name in _RENAMED and found.certain:
            yield _proposal(context, found, (replaced(context.source, found.node, _RENAMED[name]),), (_RENAMED[name],))
    if mixed:
        yield from _estimators(context)


def _wrapped(context: Context, found: Reference, call: cst.Call) -> Proposal:
    source = context.source
    scale = keyword_for(call, 1, "loss_scale")
    manager = _manager(context, scale.value if scale is not None else None)
    if manager is None or not call.args or call.args[0].star:
        return _proposal(context, found, (), ())
    rest = [arg for arg in call.args if arg is not call.args[0]]
    end = source.outer_span(call.args[0].value)[1]
    edits = [
        replaced(source, found.node, _OPTIMIZER),
        *without(source, call, rest),
        Replacement(end, end, f", {manager}"),
    ]
    return _proposal(context, found, tuple(edits), (_OPTIMIZER, manager.partition("(")[0]))


def _manager(context: Context, scale: cst.BaseExpression | None) -> str | None:
    """Return the manager for a loss scale, None for one whose kind cannot be told."""
    if scale is None or context.source.code(scale) in ("'dynamic'", '"dynamic"'):
        return f"{_DYNAMIC}({_BEGIN})"
    if isinstance(scale, (cst.Integer, cst.Float, cst.BinaryOperation)):
        return f"{_FIXED}(loss_scale={context.source.code(scale)})"
    name = api(name_of(context.source, scale.func) or "") if isinstance(scale, cst.Call) else None
    if name is not None and name.endswith("DynamicLossScale"):
        return f"{_DYNAMIC}({_BEGIN})"
    return None


def _proposal(context: Context, found: Reference, edits: tuple[Replacement, ...], names: tuple[str, ...]) -> Proposal:
    return Proposal(
        rule=RULE, span=context.source.span(found.node), replacements=edits,
        requires=tuple(adapter(context).name(name) for name in names),
        message="The adapter scales the loss, and chooses what computes in float16."
        if edits else "The kind of this loss scale cannot be told.",
        action="" if edits else f"Write {_OPTIMIZER} with {_FIXED} or {_DYNAMIC}.",
    )  # fmt: skip


def _estimators(context: Context) -> Iterator[Proposal]:
    for found in references(context.source):
        if api(found.name) == "estimator.RunConfig" and found.call is not None:
            yield Proposal(
                rule=RULE, span=context.source.span(found.call),
                message="The graph is not rewritten for float16 any more.",
                action='Pass precision_mode="allow_mix_precision" to NPURunConfig.',
            )  # fmt: skip
