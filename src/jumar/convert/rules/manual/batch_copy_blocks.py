"""## What it does
Adds `non_blocking=True` where a loop over data moves its batch to the device (`x.to(device)`,
`x.cuda()`), in files whose DataLoaders pin their memory, all of them, or will once
`loader-does-not-pin` has been applied.

## Why it matters
A copy that need not block lets the host go on and give the device its next operators meanwhile. The
order on the device stays: what uses the batch waits for it.

## Example
```python
loader = torch.utils.data.DataLoader(dataset, batch_size=64, pin_memory=True)
for x, y in loader:
    x, y = x.cuda(), y.to('cuda')
```

## Use instead
```python
loader = torch.utils.data.DataLoader(dataset, batch_size=64, pin_memory=True)
for x, y in loader:
    x, y = x.npu(non_blocking=True), y.to('npu', non_blocking=True)
```

## Fix safety
Unsafe: code that writes into the host's batch while it is being copied would change the copy.

## References
- Advice lists of the vendor's script conversion tool (msfmktransplt): to(non_blocking=True)
- https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.words import names_device
from jumar.convert.rules.manual.program.loaders import is_literal, is_off, loaders, option
from jumar.convert.rules.order import rules_by_code
from jumar.convert.rules.subject.context import Context, keyword, last_argument
from jumar.convert.rules.subject.names import descendants_here, root_name
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants

RULE = Rule(
    code="JM153",
    name="batch-copy-blocks",
    summary="A batch in pinned memory is copied to the device while the host waits.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose non_blocking for the moves of batches from pinned memory."""
    if not _all_pinned(context):
        return
    source = context.source
    for loop in source.nodes(cst.For):
        names = {node.value for node in descendants(loop.target) if isinstance(node, cst.Name)}
        for call in descendants_here(loop.body):
            if isinstance(call, cst.Call) and _moves_batch(source, call, names):
                yield Proposal(
                    rule=RULE,
                    span=(source.span(call)[1] - 1, source.span(call)[1]),
                    message="The host waits while this batch is copied to the device.",
                    replacements=(last_argument(source, call, "non_blocking=True"),),
                    safety="unsafe",
                    confidence="likely",
                )


def _all_pinned(context: Context) -> bool:
    found = [option(context.source, loader.call, "pin_memory") for loader in loaders(context)]
    will_pin = context.options.checks(rules_by_code()["JM152"])
    return bool(found) and all(is_literal(given, "True") or (will_pin and is_off(given)) for given in found)


def _moves_batch(source: Source, call: cst.Call, names: set[str]) -> bool:
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in ("to", "cuda"):
        return False
    root = root_name(call.func.value)
    if root is None or root.value not in names or keyword(call, "non_blocking") is not None:
        return False
    positional = [arg for arg in call.args if arg.keyword is None and not arg.star]
    if len(positional) != len(call.args) or len(positional) > 1:
        return False
    if call.func.attr.value == "cuda":
        return True
    return bool(positional) and _is_device(source, positional[0].value)


def _is_device(source: Source, node: cst.BaseExpression) -> bool:
    """Tell whether an argument of `.to` is a device, by its name, its text or the call that makes it."""
    text = literal(source, node)
    if text is not None:
        return text.body.startswith(("cuda", "npu"))
    if isinstance(node, cst.Call):
        return source.qualified(node.func) == "torch.device"
    return names_device(last_name(node)) or last_name(node) in ("rank", "local_rank", "gpu_id")
