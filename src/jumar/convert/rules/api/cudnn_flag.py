"""## What it does
Reports switches of cuDNN and of CUDA's own libraries, `torch.backends.cudnn.*` and `torch.backends.cuda.*`, each
with what it means on an NPU: nothing (`benchmark`), another switch (`allow_tf32`, `deterministic`), or a kernel
choice that other code makes there (`sdp_kernel`, `enable_flash_sdp`).

## Why it matters
A program that relies on `cudnn.deterministic` is not deterministic on an NPU because of it, and one that allows
TF32 gets float32 products until HF32 is allowed.

## Example
```python
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.deterministic = True
torch.backends.cuda.matmul.allow_tf32 = True
```

## Use instead
```python
torch.use_deterministic_algorithms(True)
torch.npu.matmul.allow_hf32 = True
```

## Fix safety
No fix here: the flags do no harm where they are. With similar interfaces allowed (`-sim`), JM148 writes the NPU's
switches.

## References
- https://pytorch.org/docs/stable/backends.html
- torch_npu 2.13 (`torch.npu.matmul`, `torch.npu.conv`), Ascend/pytorch `docs/zh/api/native_api/pytorch_2-13-0`
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.counterparts import nearest

RULE = Rule(
    code="JM110",
    name="cudnn-flag",
    summary="A switch of cuDNN or of CUDA's math libraries is used.",
    severity=Severity.INFO,
    doc=__doc__,
)


_PREFIXES = ("torch.backends.cudnn.", "torch.backends.cuda.")
_CUDNN = "torch.backends.cudnn."
_CUDA = "torch.backends.cuda."
_SDP = "The NPU's attention has one kernel: leave the choice out there, or use torch.nn.attention.sdpa_kernel."
_NOTES: dict[str, tuple[Severity, str]] = {
    f"{_CUDNN}deterministic": (Severity.ADVICE, "Call torch.use_deterministic_algorithms(True)."),
    f"{_CUDNN}benchmark": (Severity.INFO, "Nothing to do: there is no search for algorithms; AOE tunes operators."),
    f"{_CUDNN}benchmark_limit": (Severity.INFO, "Nothing to do: there is no search for algorithms."),
    f"{_CUDNN}allow_tf32": (Severity.INFO, "The NPU's counterpart is torch.npu.conv.allow_hf32 (on by default, too)."),
    f"{_CUDNN}enabled": (Severity.INFO, "Nothing to do: it switches cuDNN only."),
    f"{_CUDNN}flags": (Severity.INFO, "The block has no effect; for determinism use use_deterministic_algorithms."),
    f"{_CUDNN}version": (Severity.ADVICE, "It returns None without cuDNN: guard comparisons."),
    f"{_CUDNN}is_available": (Severity.ADVICE, "It is False on an NPU; check which code that switches off."),
    f"{_CUDNN}is_acceptable": (Severity.ADVICE, "It is False on an NPU; check which code that switches off."),
    f"{_CUDNN}rnn": (Severity.ADVICE, "Private to cuDNN's RNNs; remove it."),
    f"{_CUDA}matmul.allow_tf32": (
        Severity.INFO,
        "The NPU's counterpart is torch.npu.matmul.allow_hf32 (off by default, too).",
    ),
    f"{_CUDA}matmul.allow_fp16_reduced_precision_reduction": (Severity.INFO, "Nothing to do: it is cuBLAS's."),
    f"{_CUDA}matmul.allow_bf16_reduced_precision_reduction": (Severity.INFO, "Nothing to do: it is cuBLAS's."),
    f"{_CUDA}is_built": (Severity.ADVICE, "It is False on an NPU machine; check which code that switches off."),
    f"{_CUDA}sdp_kernel": (Severity.ADVICE, _SDP),
    f"{_CUDA}enable_flash_sdp": (Severity.INFO, _SDP),
    f"{_CUDA}enable_mem_efficient_sdp": (Severity.INFO, _SDP),
    f"{_CUDA}enable_math_sdp": (Severity.INFO, _SDP),
    f"{_CUDA}enable_cudnn_sdp": (Severity.INFO, _SDP),
    f"{_CUDA}flash_sdp_enabled": (Severity.ADVICE, "It tells of CUDA's kernels; check which code it switches."),
    f"{_CUDA}preferred_linalg_library": (Severity.INFO, "Nothing to do: it chooses among CUDA's libraries."),
    f"{_CUDA}cufft_plan_cache": (Severity.INFO, "The NPU's counterpart is torch.npu.backends.fft_plan_cache."),
}


def find(context: Context) -> Iterator[Proposal]:
    """Report every switch of cuDNN and CUDA's math libraries."""
    seen: set[tuple[int, int]] = set()
    for reference in context.source.references:
        if not reference.name.startswith(_PREFIXES):
            continue
        span = context.source.span(reference.node)
        if span in seen or context.within_covered(span):
            continue
        seen.add(span)
        severity, action = nearest(_NOTES, reference.name) or (Severity.INFO, "")
        yield Proposal(
            rule=RULE,
            span=span,
            severity=severity,
            message=f"`{reference.name}` has no effect on an NPU and was left.",
            action=action,
        )
