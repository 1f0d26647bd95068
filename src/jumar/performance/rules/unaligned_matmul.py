"""JM409 unaligned-matmul.

## What it does
Adds up, over the matrix products and ungrouped convolutions that run in half precision, the work that
padding adds: the cube unit computes blocks of 16 × 16 × 16, so each of M, N and K (for a convolution the
input and output channels) counts up to the next multiple of 16. Reports when the padding is 5 % or more of
a step's products, with the worst shapes.

## Why it matters
Padded rows and columns are computed and thrown away: a classifier with 17 outputs works as hard as one
with 32.

## Example
```python
head = nn.Linear(512, 50257)      # padded to 50,272: 0.03 %, harmless
gate = nn.Linear(512, 3)          # padded to 16: five times the work
```

## Use instead
Channel counts, head sizes and vocabularies that are multiples of 16; join small projections into one.

## Fix safety
No edit is made: it changes the model.

## References
The vendor's guides ("keep every dimension a multiple of 16 on the AI Core"); the cube's block of the
Ascend 910 and 910B in float16 is 16 × 16 × 16. The first convolution of an image model has 3 channels by nature.
"""

from __future__ import annotations

from jumar.findings import Severity
from jumar.performance.checker import Checker, Priced, Result, unable
from jumar.performance.operators import HALF_DTYPES, argument
from jumar.performance.subject import Call, StepView, Subject, Totals
from jumar.performance.tally import Tally, listing, per_step, percent_text, share
from jumar.rules import Rule

RULE = Rule(
    code="JM409",
    name="unaligned-matmul",
    summary="Matrix products in half precision have dimensions that are no multiples of 16.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

BLOCK = 16
MIN_PADDED_SHARE = 0.05

MATRIX_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}
"""Position of the left operand among the inputs."""
CONVOLUTIONS = {"convolution": 1, "convolution_overrideable": 1, "convolution_backward": 2}
"""Position of the weight among the inputs."""


class UnalignedMatmul(Checker):
    """Adds up useful and padded work of half-precision products."""

    rule = RULE

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._useful = 0
        self._padding: dict[str, float] = {}
        self._tally = Tally()
        self._num_other = 0

    def observe(self, step: StepView) -> None:
        """Add up the step's products."""
        for call in step.calls:
            dims = _dimensions(call)
            if dims is None or not call.flops or not self.subject.on_device(call):
                continue
            if call.row.outputs[0].dtype not in HALF_DTYPES:
                self._num_other += 1
                continue
            self._useful += call.flops
            padding = call.flops * (_padded(dims) - 1)
            if padding:
                label = f"{call.row.module_path or call.row.name} {'×'.join(map(str, dims))}"
                self._padding[label] = self._padding.get(label, 0.0) + padding
                self._tally.add(call, step.step)

    def result(self, totals: Totals) -> Result:
        """Return one finding when padding weighs."""
        if not self._useful:
            if self._num_other:
                return unable("no matrix product ran in half precision; record with autocast on to see its alignment.")
            return Result()
        padding = sum(self._padding.values())
        part = share(padding, self._useful + padding)
        if part < MIN_PADDED_SHARE:
            return Result()
        worst = sorted(self._padding.items(), key=lambda item: -item[1])
        finding = self.rule.finding(
            f"Padding to multiples of {BLOCK} is {percent_text(part)} of the work of the half-precision matrix "
            f"products; most in {listing([f'`{label}`' for label, _ in worst])}.",
            where=self._tally.where(),
            evidence={
                **self._tally.evidence(totals),
                "padded_percent": round(100 * part, 2),
                "padded_flops_per_step": per_step(padding, totals),
                "worst": {label: per_step(value, totals) for label, value in worst[:8]},
            },
            why="The cube unit computes whole blocks of 16 × 16 × 16; padded rows and columns are thrown away.",
            action="Make these channel counts or sizes multiples of 16, or join small projections into one.",
            severity=Severity.ADVICE if part >= 2 * MIN_PADDED_SHARE else Severity.INFO,
        )
        return Result(findings=(Priced(finding),))


def _dimensions(call: Call) -> tuple[int, ...] | None:
    """Return (M, K, N) of a product or (channels in, channels out) of an ungrouped convolution; None otherwise."""
    inputs = call.row.inputs
    if call.base in MATRIX_PRODUCTS and call.row.outputs:
        left = MATRIX_PRODUCTS[call.base]
        if len(inputs) < left + 2:
            return None
        return (*inputs[left].shape[-2:], inputs[left + 1].shape[-1])
    if call.base in CONVOLUTIONS and call.row.outputs and len(inputs) > CONVOLUTIONS[call.base]:
        weight = inputs[CONVOLUTIONS[call.base]].shape
        return (weight[1], weight[0]) if argument(call.row, "groups") in {1, None} else None
    return None


def _padded(dims: tuple[int, ...]) -> float:
    """Return padded over useful work."""
    ratio = 1.0
    for size in dims:
        if size:
            ratio *= -(-size // BLOCK) * BLOCK / size
    return ratio
