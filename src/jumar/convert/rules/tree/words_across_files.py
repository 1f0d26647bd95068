"""## What it does
Follows the words of devices and back ends (`cuda`, `nccl`) that files hand each other by the name of an
option or configuration key: `--device` of an argument parser, the `device:` of a YAML file, the
`--device cuda` of a launch script. Where every writer and every reader of a key can be converted, all
are; where one of them cannot, none is, and this finding says which and why.

## Why it matters
A default renamed in one file and compared with `'cuda'` in another chooses the wrong branch without a
word; an option whose choices are renamed refuses the launch script's `--device cuda`.

## Example
```python
parser.add_argument('--device', default='cuda')
```
with `if cfg.device == 'cuda': fused_kernel()` in another file, which picks a CUDA-only kernel.

## Use instead
Give the two meanings two options, then convert again.

## Fix safety
No fix; it holds edits back.

## References
- jumar docs guide-convert
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM192",
    name="words-across-files",
    summary="Files hand each other a device's name under one key, and not all of them can change.",
    severity=Severity.WARNING,
    doc=__doc__,
)
