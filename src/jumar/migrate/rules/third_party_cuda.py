"""## What it does
Reports libraries that bring their own CUDA code, and PyTorch's tools to compile some: apex,
flash_attn, bitsandbytes, xformers, Triton, DALI, pynvml, CUDAExtension and others; with the
documented counterpart on the NPU where there is one. Switches that choose such a library by a string
(`attn_implementation='flash_attention_2'`) count, too.

## Why it matters
No rename makes them run. An import that stands in a `try` may be replaced by the program itself; one
that does not fails before anything runs.

## Example
```python
from flash_attn import flash_attn_func
```

## Use instead
```python
from torch.nn.functional import scaled_dot_product_attention
```

## Fix safety
No fix: counterparts take other arguments or give other results in corner cases.

## References
- torch_npu 2.13 public API; MindSpeed and Ascend ports of the libraries
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.findings import Severity
from jumar.migrate.edits import Proposal
from jumar.migrate.literals import literals
from jumar.migrate.rules.context import Context
from jumar.migrate.source import Source, imported_name
from jumar.rules import Rule

RULE = Rule(
    code="JM111",
    name="third-party-cuda",
    summary="A library with CUDA code of its own is used.",
    severity=Severity.WARNING,
    doc=__doc__,
)

LIBRARIES = {
    "apex": "Use torch.amp for apex.amp and torch_npu.optim.NpuFused* for its fused optimizers, or Ascend's apex.",
    "amp_C": "It is apex's CUDA extension; use torch_npu.optim.NpuFused* optimizers.",
    "flash_attn": "Use torch.nn.functional.scaled_dot_product_attention or torch_npu.npu_fusion_attention"
    " (which takes head_num and input_layout, and scale has no default).",
    "bitsandbytes": "Its 8-bit optimizers and 4-bit weights have no counterpart; use torch_npu.optim.NpuFusedAdamW.",
    "xformers": "Use torch.nn.functional.scaled_dot_product_attention or torch_npu.npu_fusion_attention.",
    "triton": "Triton kernels need triton-ascend; keep the PyTorch path for the NPU.",
    "nvidia.dali": "Use torchvision transforms in DataLoader workers.",
    "pynvml": "Call npu-smi, or torch.npu.mem_get_info() for memory.",
    "cupy": "Write it with PyTorch operators.",
    "pycuda": "Write it with PyTorch operators.",
    "numba.cuda": "Write it with PyTorch operators, or in Ascend C.",
    "tensorrt": "Export ONNX and compile it with ATC for inference on the NPU.",
    "torch_tensorrt": "Export ONNX and compile it with ATC for inference on the NPU.",
    "transformer_engine": "Use plain PyTorch layers, or MindSpeed's.",
    "torch_scatter": "Check that the installed build has NPU kernels; it falls back to the CPU otherwise.",
    "spconv": "It has CUDA kernels only.",
    "mamba_ssm": "It has CUDA and Triton kernels; use its reference implementation.",
    "causal_conv1d": "It has CUDA kernels only; use torch.nn.Conv1d with padding.",
}

TOOLS = {
    "torch.utils.cpp_extension.CUDAExtension": "Port the kernel to Ascend C and build it with"
    " torch_npu.utils.cpp_extension.NpuExtension.",
    "torch.utils.cpp_extension.load": "If it compiles CUDA sources, keep the PyTorch path for the NPU.",
    "torch.utils.cpp_extension.load_inline": "If it compiles CUDA sources, keep the PyTorch path for the NPU.",
    "torch.utils.cpp_extension.CUDA_HOME": "There is no CUDA toolkit on an NPU machine.",
}

_SWITCHES = {
    "flash_attention_2": "Use 'sdpa'; transformers maps it to the NPU's kernel.",
    "paged_adamw_8bit": "It is bitsandbytes'; use 'adamw_torch'.",
    "paged_adamw_32bit": "It is bitsandbytes'; use 'adamw_torch'.",
    "adamw_bnb_8bit": "It is bitsandbytes'; use 'adamw_torch'.",
    "adamw_apex_fused": "It is apex's; use 'adamw_torch'.",
    "xformers": "Use PyTorch's scaled_dot_product_attention.",
}


def check(context: Context) -> Iterator[Proposal]:
    """Report imports and uses of CUDA libraries, and strings that choose them."""
    yield from _imports(context)
    yield from _tools(context)
    for text in literals(context.source):
        hint = _SWITCHES.get(text.body) if text.num_fields == 0 else None
        if hint is not None:
            yield Proposal(
                rule=RULE, span=context.source.span(text.node), confidence="likely", action=hint,
                message=f"'{text.body}' chooses a library with CUDA code of its own.",
            )  # fmt: skip


def _imports(context: Context) -> Iterator[Proposal]:
    source = context.source
    for alias in source.nodes(cst.ImportAlias):
        name = imported_name(alias, source.parent(alias)) or ""
        library = next((key for key in LIBRARIES if name == key or name.startswith(f"{key}.")), None)
        if library is None:
            continue
        optional = is_optional(source, alias)
        yield Proposal(
            rule=RULE,
            span=source.span(alias.name),
            severity=Severity.ADVICE if optional else Severity.WARNING,
            message=f"`{name}` belongs to {library}, which has CUDA code of its own"
            + (" (its import may fail here without harm)." if optional else "."),
            action=LIBRARIES[library],
        )


def is_optional(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether an import stands in the body of a `try`, or in a function."""
    child: cst.CSTNode = node
    for around in source.ancestors(node):
        if isinstance(around, (cst.Try, cst.TryStar)) and around.body is child:
            return True
        if isinstance(around, cst.FunctionDef):
            return True
        child = around
    return False


def _tools(context: Context) -> Iterator[Proposal]:
    for reference in context.source.references:
        hint = TOOLS.get(reference.name)
        if hint is not None:
            yield Proposal(
                rule=RULE, span=context.source.span(reference.node), action=hint,
                message=f"`{reference.name}` builds CUDA code.",
            )  # fmt: skip
