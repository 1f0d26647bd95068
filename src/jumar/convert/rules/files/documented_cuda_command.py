"""## What it does
Reports commands in the code blocks of Markdown and reStructuredText files that set CUDA's environment
variables, pass `--device cuda` or call NVIDIA's tools, and shows how each reads for the NPU.

## Why it matters
Who follows the document runs into what the conversion changed: a converted program refuses
`--device cuda`.

## Example
```bash
python train.py --device cuda
```

## Use instead
```bash
python train.py --device npu
```

## Fix safety
For show only: documents often describe both machines, so the text is the author's to change.

## References
- JM120, JM121, JM122
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM127",
    name="documented-cuda-command",
    summary="A document tells its readers to run a command for CUDA.",
    severity=Severity.INFO,
    doc=__doc__,
)
