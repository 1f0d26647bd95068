"""## What it does
Finds environment variables of CUDA and NCCL that Python code reads or sets, and names the NPU's
counterpart where there is one.

## Why it matters
`CUDA_VISIBLE_DEVICES` has no effect on NPUs, so `--device 1` trains on device 0. Its counterpart
ASCEND_RT_VISIBLE_DEVICES takes only ascending numbers: with `1,0` no device is found, silently.

## Example
```python
os.environ['CUDA_VISIBLE_DEVICES'] = args.devices
```

## Use instead
```python
os.environ['ASCEND_RT_VISIBLE_DEVICES'] = args.devices
```

## Fix safety
Unsafe: the values of the variables differ in form or meaning, and shells and launchers set them, too.
Variables without a counterpart are reported only, and so is every one for `--target agnostic`: the
program goes on needing CUDA's beside the NPU's.

## References
- Ascend/pytorch `docs/zh/api/environment_variable/`
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.literals import literals

RULE = Rule(
    code="JM109",
    name="cuda-environment",
    summary="An environment variable of CUDA or NCCL is used.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="unsafe",
)

_NAME = re.compile(
    r"(TORCH_|PYTORCH_)?(CUDA|NCCL|CUBLAS|CUDNN|NVIDIA)_[A-Z0-9_]+|PYTORCH_NO_CUDA_MEMORY_CACHING|CUDA_HOME"
)

COUNTERPARTS = {
    "CUDA_VISIBLE_DEVICES": "ASCEND_RT_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING": "ASCEND_LAUNCH_BLOCKING",
    "PYTORCH_CUDA_ALLOC_CONF": "PYTORCH_NPU_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "PYTORCH_NO_NPU_MEMORY_CACHING",
    "NCCL_SOCKET_IFNAME": "HCCL_SOCKET_IFNAME",
}
_NOTES = {
    "CUDA_VISIBLE_DEVICES": "Give the numbers in ascending order, or no device is found.",
    "PYTORCH_CUDA_ALLOC_CONF": "Check that each option exists for the NPU's allocator.",
}


def find(context: Context) -> Iterator[Proposal]:
    """Propose the NPU's environment variable, or report that there is none."""
    for text in literals(context.source):
        if text.num_fields or not _NAME.fullmatch(text.body):
            continue
        new = COUNTERPARTS.get(text.body)
        renames = new is not None and context.dialect.target == "npu"
        edits = (Replacement(text.start, text.start + len(text.body), new),) if new is not None and renames else ()
        yield Proposal(
            rule=RULE,
            span=context.source.span(text.node),
            message=f"{text.body} has no effect on an NPU" + (f"; its counterpart is {new}." if new else "."),
            replacements=edits,
            safety="unsafe",
            severity=Severity.WARNING if new else Severity.ADVICE,
            action=_action(text.body, new, renames=renames),
        )


def _action(name: str, new: str | None, *, renames: bool) -> str:
    if new is None:
        return "Remove it, or keep it for CUDA machines."
    note = _NOTES.get(name, "")
    return note if renames else f"Keep it for CUDA and treat {new} the same way for the NPU. {note}".strip()
