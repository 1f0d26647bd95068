"""## What it does
Lets a checkpoint be loaded whether its keys begin with `module.` (saved from DistributedDataParallel or
DataParallel) or not:

- `key[7:]` in a loop or comprehension over a state dict, which cuts seven characters off every key, becomes
  `key.removeprefix('module.')`;
- before `model.load_state_dict(state)` of a model that this file does not wrap, the prefix is consumed where
  it is there, by PyTorch's own function.

`key.replace('module.', '')`, which also cuts it out of the middle, is reported.

## Why it matters
The guide's FAQ ("load state_dict error") cuts with `key[7:]`, which damages the keys of a checkpoint that
was saved from one device.

## Example
```python
checkpoint = torch.load(path, map_location='cpu')
state = {key[7:]: value for key, value in checkpoint.items()}
```

## Use instead
```python
checkpoint = torch.load(path, map_location='cpu')
state = {key.removeprefix('module.'): value for key, value in checkpoint.items()}
```

## Fix safety
Unsafe: keys without the prefix stay as they are, where they lost seven characters before.

## References
- PyTorch network model porting and training guide: FAQ, "load state_dict error"
- torch.nn.modules.utils.consume_prefix_in_state_dict_if_present
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.manual.program.training_step import is_optimizer
from jumar.convert.rules.subject.code import lines_before, statement_of, suite_of
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.names import assigned_values, torch_name, words_of
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants

RULE = Rule(
    code="JM160",
    name="state-dict-prefix",
    summary="A checkpoint's keys are cut, or loaded, as if all or none began with `module.`.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


_CONSUME = "nn.modules.utils.consume_prefix_in_state_dict_if_present"
_WRAPPERS = frozenset({"DataParallel", "DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP"})
_NO_MODELS = frozenset({"scheduler", "scaler", "sched", "ema", "sampler", "criterion", "loss", "meter", "tokenizer"})


def find(context: Context) -> Iterator[Proposal]:
    """Propose prefixes cut only where they are."""
    source = context.source
    for node in source.nodes(cst.Subscript):
        if _cuts_seven(source, node):
            yield Proposal(
                rule=RULE,
                span=source.span(node),
                message=f"`{source.code(node)}` cuts seven characters off every key, `module.` or not.",
                replacements=(_removed_prefix(context, node),),
                safety="unsafe",
            )
    for call in source.nodes(cst.Call):
        if _replaces_prefix(call):
            yield Proposal(
                rule=RULE,
                span=source.span(call),
                severity=Severity.INFO,
                message="`module.` is cut out of keys wherever it stands.",
                action="Use key.removeprefix('module.') unless an inner module is called so.",
            )
        yield from _load(context, call)


def _cuts_seven(source: Source, node: cst.Subscript) -> bool:
    part = node.slice[0].slice if len(node.slice) == 1 else None
    if not isinstance(part, cst.Slice) or not isinstance(part.lower, cst.Integer) or part.lower.value != "7":
        return False
    if part.upper is not None or part.step is not None or not isinstance(node.value, cst.Name):
        return False
    name = node.value.value
    return _is_key(source, node, name) and not _is_tested(source, node, name)


def _is_key(source: Source, node: cst.CSTNode, name: str) -> bool:
    """Tell whether a variable runs over the keys of a dictionary: the first of two targets over `.items()`."""
    for around in source.ancestors(node):
        loops = [around] if isinstance(around, (cst.For, cst.CompFor)) else []
        if isinstance(around, (cst.DictComp, cst.ListComp, cst.GeneratorExp)):
            loops = [around.for_in]
        for loop in loops:
            target, over = loop.target, loop.iter
            if isinstance(target, cst.Tuple) and len(target.elements) == 2:
                first = target.elements[0].value
                if last_name(first) == name and isinstance(over, cst.Call) and last_name(over.func) == "items":
                    return True
            elif last_name(target) == name and (
                (isinstance(over, cst.Call) and last_name(over.func) == "keys") or "state" in words_of(last_name(over))
            ):
                return True
        if isinstance(around, cst.FunctionDef):
            return False
    return False


def _is_tested(source: Source, node: cst.CSTNode, name: str) -> bool:
    """Tell whether the cut depends on a test of the key, as in `if key.startswith('module.')`."""
    for around in source.ancestors(node):
        tests = [around.test] if isinstance(around, (cst.If, cst.IfExp)) else []
        if isinstance(around, (cst.DictComp, cst.ListComp, cst.GeneratorExp)):
            tests = [part.test for part in around.for_in.ifs]
        if any(isinstance(found, cst.Name) and found.value == name for test in tests for found in descendants(test)):
            return True
        if isinstance(around, cst.FunctionDef):
            return False
    return False


def _removed_prefix(context: Context, node: cst.Subscript) -> Replacement:
    source, quote = context.source, context.quote
    end = source.span(node)[1]
    return Replacement(source.outer_span(node.value)[1], end, f".removeprefix({quote}module.{quote})")


def _replaces_prefix(call: cst.Call) -> bool:
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "replace" or len(call.args) != 2:
        return False
    texts = [arg.value.evaluated_value for arg in call.args if isinstance(arg.value, cst.SimpleString)]
    return texts == ["module.", ""]


def _load(context: Context, call: cst.Call) -> Iterator[Proposal]:
    """Yield the prefix's consumption before a model that is not wrapped loads what torch.load gave."""
    source = context.source
    if not (isinstance(call.func, cst.Attribute) and call.func.attr.value == "load_state_dict" and call.args):
        return
    model, state = call.func.value, call.args[0].value
    if not _is_plain_model(source, model) or not _is_loaded(source, state):
        return
    statement, torch = statement_of(source, call), torch_name(source, call)
    if not isinstance(statement, cst.SimpleStatementLine) or torch is None or _is_consumed(source, statement):
        return
    line = f"{torch}.{_CONSUME}({source.code(state)}, {context.quote}module.{context.quote})"
    yield Proposal(
        rule=RULE,
        span=source.span(call.func),
        message="A checkpoint of a wrapped model has keys with `module.`, which this model does not.",
        replacements=(lines_before(source, statement, line),),
        safety="unsafe",
        confidence="likely",
    )


def _is_plain_model(source: Source, node: cst.BaseExpression) -> bool:
    name = last_name(node)
    if not name or is_optimizer(source, node) or words_of(name) & _NO_MODELS or name == "module":
        return False
    return not any(
        isinstance(found, cst.Call) and last_name(found.func) in _WRAPPERS
        for value in assigned_values(source, name)
        for found in descendants(value)
    )


def _is_loaded(source: Source, node: cst.BaseExpression) -> bool:
    """Tell whether an expression is, or is an item of, a variable that torch.load was assigned to."""
    if isinstance(node, cst.Subscript):
        node = node.value
    if not isinstance(node, cst.Name):
        return False
    values = [binding.value for binding in source.scope(node).bindings_of(node.value)]
    return bool(values) and all(
        isinstance(value, (cst.Call, cst.Subscript)) and _reads_checkpoint(source, value) for value in values
    )


def _reads_checkpoint(source: Source, value: cst.Call | cst.Subscript) -> bool:
    inner: cst.BaseExpression = value
    while isinstance(inner, cst.Subscript):
        inner = inner.value
    return isinstance(inner, cst.Call) and source.qualified(inner.func) == "torch.load"


def _is_consumed(source: Source, statement: cst.SimpleStatementLine) -> bool:
    suite = suite_of(source, statement)
    before = suite[: suite.index(statement)] if statement in suite else []
    return any("module." in source.code(part) for part in before if isinstance(part, cst.SimpleStatementLine))
