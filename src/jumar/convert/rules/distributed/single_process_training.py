"""## What it does
With `distributed -m MAIN`, makes the entry script join a process group when torchrun starts it: rank,
device and back end come from torchrun's environment, only in the process that runs the script (not in one
that imports it), and the group is left at the end. The functions the other edits call are defined once,
after the imports. Started as before (`python main.py`), the script trains in one process as before.

## Why it matters
One process a device is how NPUs train together. A group joined on import catches every helper process that
imports the file; fixed ranks and ports fail as soon as the launcher chooses others.

## Example
```python
if __name__ == '__main__':
    main()
```

## Use instead
```python
if __name__ == '__main__':
    start_ranks()
    main()
    stop_ranks()
```

## Fix safety
Safe: all parts are made (JM175 to JM180), or none and JM181 says why. Ranks share the random numbers they
draw before their models are parallel, so that weights and splits agree; a seed the script sets is kept.

## References
- https://pytorch.org/docs/stable/elastic/run.html
- https://pytorch.org/docs/stable/distributed.html
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.distributed.program.plan import proposals
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM175",
    name="single-process-training",
    summary="The entry script trains in one process.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose the process group and the helpers of the entry script."""
    yield from proposals(context, RULE, "entry")
