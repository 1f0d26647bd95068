"""## What it does
With similar interfaces allowed (`-sim`): replaces apex's `FusedLayerNorm`, `FusedRMSNorm`, `SyncBatchNorm`,
`convert_syncbn_model` and `DistributedDataParallel` by PyTorch's, and takes `torch.nn.DataParallel` away where
nothing in the file depends on the wrapper.

## Why it matters
apex's modules are CUDA extensions with the parameters and state of PyTorch's. `DataParallel` is not supported on
NPUs, and on one device it only adds a wrapper.

## Example
```python
from apex.normalization import FusedLayerNorm
norm = FusedLayerNorm(256)
model = torch.nn.DataParallel(model)
```

## Use instead
```python
norm = torch.nn.LayerNorm(256)
```

## Fix safety
Norms: the same values up to rounding; under autocast PyTorch's give float32. DistributedDataParallel: the same
mean of gradients; parameters without one need `find_unused_parameters=True`. DataParallel: the batch is no longer
split, so batch norm sees all of it, and keys of checkpoints lose their `module.`; files that speak of `.module`
or of such keys are left.

## References
- https://nvidia.github.io/apex/layernorm.html, https://nvidia.github.io/apex/parallel.html
- https://pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html
- https://pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.similar.replacing.forms import Form, written
from jumar.convert.rules.similar.replacing.replaced import Replaced, finder, left, named, proposals
from jumar.convert.rules.similar.replacing.spelling import (
    bound_arguments,
    constant,
    has_comment,
    without_statement,
)
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import comes_optionally
from jumar.convert.syntax.source import Reference, Source

RULE = Rule(
    code="JM147",
    name="similar-module",
    summary="A module of a CUDA library, or DataParallel, can be replaced by PyTorch's.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="safe",
)


_NORM = "The same parameters and values up to rounding; under autocast the result is float32. "
_LAYER_NORM = Form(
    new="torch.nn.LayerNorm", parameters=("normalized_shape", "eps", "elementwise_affine", "memory_efficient"),
    dropped={"memory_efficient": ()}, caveat=_NORM, as_value=True,
)  # fmt: skip
_RMS_NORM = Form(
    new="torch.nn.RMSNorm", parameters=("normalized_shape", "eps", "elementwise_affine", "memory_efficient"),
    dropped={"memory_efficient": ()}, added={"eps": "1e-05"}, caveat=_NORM,
)  # fmt: skip
_SYNC = Form(
    new="torch.nn.SyncBatchNorm",
    parameters=("num_features", "eps", "momentum", "affine", "track_running_stats", "process_group",
                "channel_last", "fuse_relu"),
    dropped={"channel_last": (False,), "fuse_relu": (False,)}, positional=6, as_value=True,
    caveat="It needs DistributedDataParallel with one device a process. ",
)  # fmt: skip
_CONVERT = Form(
    new="torch.nn.SyncBatchNorm.convert_sync_batchnorm", parameters=("module", "process_group", "channel_last"),
    dropped={"channel_last": (False,)}, positional=2,
    caveat="It needs DistributedDataParallel with one device a process. ",
)  # fmt: skip
_DDP = Form(
    new="torch.nn.parallel.DistributedDataParallel", parameters=("module", "message_size", "delay_allreduce"),
    dropped={"message_size": (), "delay_allreduce": ()}, positional=1,
    caveat="The same mean of gradients; parameters without one need find_unused_parameters=True. ",
)  # fmt: skip

_FORMS: dict[str, Form] = {
    "apex.normalization.FusedLayerNorm": _LAYER_NORM,
    "apex.normalization.fused_layer_norm.FusedLayerNorm": _LAYER_NORM,
    "apex.normalization.FusedRMSNorm": _RMS_NORM,
    "apex.normalization.fused_layer_norm.FusedRMSNorm": _RMS_NORM,
    "apex.parallel.SyncBatchNorm": _SYNC,
    "apex.parallel.optimized_sync_batchnorm.SyncBatchNorm": _SYNC,
    "apex.parallel.convert_syncbn_model": _CONVERT,
    "apex.parallel.DistributedDataParallel": _DDP,
    "apex.parallel.distributed.DistributedDataParallel": _DDP,
}
_DATA_PARALLEL = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DataParallel"})


@finder(RULE)
def replaceable(context: Context) -> Iterator[Replaced]:
    """Yield the modules of the file that have an equal, each replaced or left."""
    source = context.source
    for reference in source.references:
        form = _FORMS.get(reference.name)
        if not reference.certain:
            continue
        if form is not None and not comes_optionally(source, reference):
            if reference.call is not None:
                yield written(context, RULE, reference, reference.call, form)
            elif form.as_value:
                yield named(context, RULE, reference, form.new, [], form.caveat)
        elif reference.name in _DATA_PARALLEL and reference.call is not None:
            yield _data_parallel(context, reference, reference.call)


def _data_parallel(context: Context, reference: Reference, call: cst.Call) -> Replaced:
    """Take the wrapper away: `DataParallel(model)` becomes `model`."""
    source = context.source
    given = bound_arguments(call, ("module", "device_ids", "output_device", "dim"), positional=2)
    reason = _kept(source)
    if given is None or "module" not in given:
        reason = reason or "its arguments cannot be told apart here"
    elif "device_ids" in given and not _is_one(given["device_ids"].value):
        reason = reason or "it names more than one device"
    elif any(not _is_constant(given[name].value) for name in ("output_device", "dim") if name in given):
        reason = reason or "its arguments are computed"
    if reason or given is None:
        return left(context, RULE, reference, reason)
    edits = _unwrapped(source, call, given["module"])
    if edits is None:
        return left(context, RULE, reference, "a comment stands in the call")
    return Replaced(
        reference=reference,
        proposal=Proposal(
            rule=RULE,
            span=source.span(reference.node),
            message="`DataParallel` was taken away; the model runs on one device.",
            replacements=edits,
            severity=Severity.WARNING,
            why="The batch is no longer split, so batch norm sees all of it, and keys of checkpoints lose `module.`.",
            action="Train with DistributedDataParallel for several devices; strip `module.` from old checkpoints.",
            evidence={"similar": "one device", "caveat": "batch norm statistics; keys of checkpoints"},
        ),
    )


def _is_one(node: cst.BaseExpression) -> bool:
    if isinstance(node, (cst.List, cst.Tuple)):
        return len(node.elements) <= 1 and all(_is_constant(element.value) for element in node.elements)
    return constant(node) is None


def _is_constant(node: cst.BaseExpression) -> bool:
    return not isinstance(constant(node), cst.CSTNode)


def _kept(source: Source) -> str:
    """Return what in the file depends on the wrapper, or an empty text."""
    if any(node.attr.value == "module" for node in source.nodes(cst.Attribute)):
        return "this file reads `.module`"
    if any(node.raw_value.startswith("module.") or node.raw_value == "module"
           for node in source.nodes(cst.SimpleString)):  # fmt: skip
        return "this file speaks of keys with `module.`"
    for reference in source.references:
        if reference.name in _DATA_PARALLEL and reference.call is None:
            return "this file uses the class itself"
    return ""


def _unwrapped(source: Source, call: cst.Call, module: cst.Arg) -> tuple[Replacement, ...] | None:
    line = _self_assignment(source, call, module)
    if line is not None:
        return None if has_comment(source, [source.span(line)]) else (without_statement(source, line),)
    start, end = source.span(call)
    first, last = source.outer_span(module.value)
    if has_comment(source, [(start, first), (last, end)]):
        return None
    atom = module.value.lpar or isinstance(module.value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    before, after = ("", "") if atom else ("(", ")")
    return Replacement(start, first, before), Replacement(last, end, after)


def _self_assignment(source: Source, call: cst.Call, module: cst.Arg) -> cst.SimpleStatementLine | None:
    """Return the line `model = DataParallel(model)`, which would say nothing."""
    assign = source.parent(call)
    line = source.parent(assign) if isinstance(assign, cst.Assign) else None
    if not isinstance(assign, cst.Assign) or not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    if len(assign.targets) != 1 or source.code(assign.targets[0].target) != source.code(module.value):
        return None
    return line if isinstance(source.parent(line), (cst.IndentedBlock, cst.Module)) else None


def find(context: Context) -> Iterator[Proposal]:
    """Replace what has an equal, where similar interfaces are allowed."""
    return proposals(context, RULE)
