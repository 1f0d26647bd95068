"""JM452 unfused-rotary.

## What it does
Finds rotary position embeddings that are written out (`x * cos + rotate_half(x) * sin`: a negation, a concatenation,
two products, a sum) and adds up their time in the forward pass.

## Why it matters
Queries and keys are read and written five times each in every layer.

## Example
```python
rotated = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
x = x * cos + rotated * sin
```

## Use instead
On an NPU `torch_npu.npu_rotary_mul(x, cos, sin)`; on a GPU `torch.compile` of the function makes one kernel of it.

## Fix safety
The same calculation in another order: results differ in the last digits.

## References
RoFormer (Su et al., 2021); `npu_rotary_mul` of the vendor.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes
from jumar.advise.timing.chains import Fusion, find_fusions, steps_of
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM452",
    name="unfused-rotary",
    summary="Rotary position embeddings are calculated in parts.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
FUSIONS = (
    Fusion(
        what="The rotary embedding",
        patterns=[steps_of("neg", "cat", "mul", "add"), steps_of("view_as_complex", "mul", "view_as_real")],
        unless=frozenset({"linear", "matmul", "mm", "bmm", "softmax", "mean", "sum"}),
        use="Use `torch_npu.npu_rotary_mul` on an NPU; elsewhere compile the function with `torch.compile`.",
    ),
)


def find(profile: Profile) -> Outcomes:
    """Yield one finding when rotary embeddings in parts fill a share of the steps."""
    return find_fusions(profile, RULE, FUSIONS, "one fused operator reads it once.")
