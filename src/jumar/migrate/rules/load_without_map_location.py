"""## What it does
Finds `torch.load` calls without `map_location`.

## Why it matters
A checkpoint saved on CUDA remembers its device. Loaded without `map_location` on a machine without
CUDA it raises "Attempting to deserialize object on a CUDA device".

## Example
```python
state = torch.load(path)
```

## Use instead
```python
state = torch.load(path, map_location='cpu')
```

## Fix safety
Unsafe: tensors that stayed on the accelerator now arrive on the CPU. `load_state_dict` copies them
to the right place; code that uses them directly must move them.

## References
- https://pytorch.org/docs/stable/generated/torch.load.html
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.findings import Severity
from jumar.migrate.edits import Proposal
from jumar.migrate.rules.context import Context, has_star, keyword, last_argument, uses_of
from jumar.rules import Rule

RULE = Rule(
    code="JM112",
    name="load-without-map-location",
    summary="torch.load is called without map_location.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="unsafe",
)


def check(context: Context) -> Iterator[Proposal]:
    """Propose `map_location='cpu'` for every torch.load that leaves the device open."""
    source = context.source
    for reference in uses_of(source, "torch.load"):
        call = reference.call
        if call is None or keyword(call, "map_location") or has_star(call, "**") or has_star(call, "*"):
            continue
        if sum(argument.keyword is None for argument in call.args) != 1 and keyword(call, "f") is None:
            continue
        device = f"{context.quote}cpu{context.quote}"
        yield Proposal(
            rule=RULE,
            span=source.span(reference.node),
            message="`torch.load` without map_location cannot open a checkpoint saved on CUDA.",
            replacements=(last_argument(source, call, f"map_location={device}"),),
            safety="unsafe",
            action="Pass map_location='cpu' and let load_state_dict move the values.",
        )
