"""JM307 random-numbers-differ.

## What it does
Recognises operators that draw random numbers (dropout, `bernoulli_`, `randn`, …) and drew others in
the two runs. A mask that both return tells "other random numbers" from "wrong scaling of equal ones";
the latter is a divergence. Other random numbers end the search.

## Why it matters
Generators of different devices give different sequences for one seed, and a generator gives other numbers for another
dtype. From the first such operator on,
every difference is expected and says nothing about the kernels.

## Example
```text
aten::native_dropout in blocks.0.drop: the masks differ
```

## Use instead
Set dropout to 0 (or call `model.eval()` where training behaviour does not matter) in both runs, or
draw the random numbers on the CPU, and record again.

## Fix safety
No edit is made.

## References
PyTorch documentation, "Reproducibility": results may differ between devices even with one seed.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.comparison.model.results import OperatorDiff
from jumar.comparison.model.words import location, place
from jumar.comparison.walk.evidence import Evidenced

RULE = Rule(
    code="JM307",
    name="random-numbers-differ",
    summary="The runs drew different random numbers, so what follows cannot be compared.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(found: Evidenced) -> list[Finding]:
    """Return the first operator that drew other numbers, if there is one."""
    diff = found.random
    if diff is None or found.leaves:
        return []
    seeds = [str(setting) for setting in found.settings if "seed" in setting.name.lower()]
    before, after = found.correspondence.drawn_from
    cause = f" (seeds differ: {'; '.join(seeds)})" if seeds else ""
    dtypes = _dtypes(diff)
    if dtypes:
        cause += f", for it draws {dtypes[0]} in the reference and {dtypes[1]} in the target, which are other numbers"
    elif before and after and before != after:
        cause += ", from another state of the generator: seeded otherwise, or drawn from more often before"
    elif before and before == after:
        cause += ", though the generators were in one state: they are different generators"
    return [
        RULE.finding(
            f"{diff.name} in {place(diff)} drew different random numbers in the two runs{cause}; "
            "what follows cannot be compared.",
            where=location(diff),
            evidence={"step": diff.step, "seeds": list(seeds), "generator_states": [before, after]},
            why="A generator gives other numbers for another dtype."
            if dtypes
            else "The generators of different devices give different sequences for one seed.",
            action="Give both runs one seed and draw random numbers on the CPU, or set dropout to 0, and record again.",
        )
    ]


def _dtypes(diff: OperatorDiff) -> tuple[str, str] | None:
    """Return the dtypes of the drawn numbers on both sides; None where they are the same."""
    drawn = [(tensor.dtype, tensor.target_dtype) for tensor in diff.outputs]
    return next((pair for pair in drawn if pair[0] != pair[1]), None)
