"""A kernel is written in Triton: what triton-ascend is documented to lack for it.

## What it does
Names each `@triton.jit` kernel of the sources with its line, and lists what the documentation of triton-ascend says is
missing or other on an NPU for the parts of `triton.language` that the kernel uses. A kernel without such a part is
named, too.

## Why it matters
triton-ascend compiles Triton kernels for an NPU. Some operators and dtypes are missing there, some arguments do
nothing. A grid has at most 65535 programs, and the blocks of a program must fit the unified buffer of one core.
Neither can be read off a source.

## Example
```python
@triton.jit
def order(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.sort(tl.load(x_ptr + offsets, eviction_policy="evict_first")))
```

## Use instead
Operators and dtypes that the tables list, or a path of PyTorch operators for the NPU. On the emulated NPU Triton's
interpreter runs the kernel, so that its numbers can be compared with those of such a path.

## Fix safety
No edit is made.

## References
triton-lang/triton-ascend: `docs/zh/triton_api`, `docs/sources/python-api/outline.md`,
`docs/en/migration_guide/migrate_from_gpu.md`
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.convert.assess.subject import Assessed, times
from jumar.convert.assess.triton_kernels import Kernel

RULE = Rule(
    code="JM209",
    name="triton-kernel-limit",
    summary="A Triton kernel uses what triton-ascend is documented to lack.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(subject: Assessed) -> Iterator[Finding]:
    """Yield one finding for each kernel."""
    for kernel in subject.kernels:
        yield _limited(kernel) if kernel.limits else _plain(kernel)


def _limited(kernel: Kernel) -> Finding:
    texts = [text for text, _ in kernel.limits]
    return RULE.finding(
        f"The Triton kernel `{kernel.name}` meets {times(len(texts), 'limit')} that triton-ascend documents: "
        f"{'; '.join(texts)}.",
        where=kernel.where,
        evidence={"kernel": kernel.name, "limits": [f"{where}: {text}" for text, where in kernel.limits]},
        why="triton-ascend refuses or ignores what its documentation lists as missing.",
        action="Write these parts otherwise, or give the NPU a path of PyTorch operators.",
        confidence="likely",  # dtypes of arguments are known only when the kernel is launched
    )


def _plain(kernel: Kernel) -> Finding:
    return RULE.finding(
        f"The Triton kernel `{kernel.name}` uses nothing that triton-ascend documents as missing.",
        where=kernel.where,
        evidence={"kernel": kernel.name, "limits": []},
        why="triton-ascend compiles it; sizes of blocks and grids, and dtypes, show only on the NPU.",
        action="Run it with triton-ascend; keep the grid under 65536 programs.",
        severity=Severity.INFO,
        confidence="likely",
    )
