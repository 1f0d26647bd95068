"""## What it does
With `distributed`, reports in the other files of the project what every rank would do at once: saving,
copying and deleting files, making folders, opening files to write.

## Why it matters
The entry script is changed so that rank 0 does such things for all; its modules are not, because they may
serve other scripts. Ranks that write one file at once leave a broken one. Files that use several devices by
themselves are left out.

## Example
```python
def save_checkpoint(state, path):
    torch.save(state, path)
```

## Use instead
```python
def save_checkpoint(state, path):
    if int(os.environ.get('RANK', 0)) == 0:
        torch.save(state, path)
```

## Fix safety
No fix: who calls the function is not known in its file.

## References
- https://pytorch.org/docs/stable/elastic/run.html#environment-variables
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.distributed.program.library_names import WRITES
from jumar.convert.rules.distributed.program.plan import already_distributed, is_main
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM184",
    name="work-of-every-rank",
    summary="A module of the project writes on every rank.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(context: Context) -> Iterator[Proposal]:
    """Report what a module writes."""
    source = context.source
    if context.options.distributed is None or is_main(context) or already_distributed(source) is not None:
        return
    for call in source.nodes(cst.Call):
        name = source.qualified(call.func) or ""
        if name in WRITES and not name.startswith("matplotlib."):
            yield Proposal(
                rule=RULE,
                span=(source.span(call)[0], source.span(call)[0]),
                confidence="possible",
                message=f"`{source.code(call.func)}` runs on every rank that calls this.",
                action="Let rank 0 alone do it: if int(os.environ.get('RANK', 0)) == 0.",
            )
