"""## What it does
Notes that the batch size of a converted script is that of one rank, so that the global batch and the number
of steps an epoch change with the number of ranks.

## Why it matters
N ranks take N times the samples a step. The usual answer is a learning rate N times as high with some epochs of
warm-up, or a batch size N times as small for the very same training.

## Example
```
python main.py --batch-size 256 --lr 0.1                          # 256 samples a step
```

## Use instead
```
./run_distributed_npu.sh 8 --batch-size 256 --lr 0.8              # 2,048 samples a step
./run_distributed_npu.sh 8 --batch-size 32 --lr 0.1               # 256 samples a step
```

## Fix safety
No fix: it is the user's choice.

## References
- Goyal et al., Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour, 2017
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.distributed.program.plan import plan_of
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM183",
    name="batch-size-of-one-rank",
    summary="The batch size is that of one rank.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(context: Context) -> Iterator[Proposal]:
    """Note what becomes of the batch size of each training loader."""
    plan = plan_of(context)
    for change in plan.parts.get("loaders", ()) if plan is not None else ():
        if change.replacements:
            end = change.span[1]
            yield Proposal(
                rule=RULE,
                span=(end, end),
                message="The batch size is that of one rank: N ranks take N times the samples a step.",
                action="Raise the learning rate with the number of ranks (with a warm-up), or divide the batch size "
                "by it for the same training.",
            )
