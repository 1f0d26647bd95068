"""## What it does
Finds configuration values and command-line options that choose a CUDA-only implementation or numeric
mode: `attn_implementation: flash_attention_2`, `optim: adamw_bnb_8bit`, `load_in_4bit: true`, `tf32: true`,
`fused_adam`, `fp8: true`, cuDNN flags.

## Why it matters
The library behind the word is missing on the NPU: the program fails, or refuses the option.

## Example
```yaml
attn_implementation: flash_attention_2
```

## Use instead
```yaml
attn_implementation: sdpa
```

## Fix safety
Unsafe: the replacement computes the same with other rounding, or uses more memory. Values without a
replacement are reported.

## References
- transformers `TrainingArguments`, `OptimizerNames` (`adamw_torch_npu_fused`)
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM129",
    name="cuda-switch-in-configuration",
    summary="An option chooses an implementation that exists for CUDA only.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="unsafe",
)
