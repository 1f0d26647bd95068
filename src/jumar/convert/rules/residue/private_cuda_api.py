"""## What it does
Finds CUDA reached around PyTorch's public interface: `torch._C._cuda_*`, libraries opened with ctypes (`libcudart`,
`libnvrtc`), operators registered for CUDA's dispatch key (`torch.library.impl(..., 'CUDA')`, `device_types='cuda'`),
and attributes of torch that are looked up by a CUDA name (`hasattr(torch._C, '_cuda_getDevice')`).

## Why it matters
These names are of one build of PyTorch. On an NPU they are missing (AttributeError, OSError), or an operator has no
kernel for the device it is called on.

## Example
```python
libcudart = ctypes.CDLL('libcudart.so')
lib.impl('scale', scale_cuda, 'CUDA')
```

## Use instead
```python
lib.impl('scale', scale_reference, 'CompositeExplicitAutograd')
```

## Fix safety
No fix: each name needs its own answer.

## References
- https://pytorch.org/docs/stable/library.html
- torch_npu 2.13 public API (`torch_npu._C`)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import distinct
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.literals import literal, literals
from jumar.convert.syntax.source import Reference, Source

RULE = Rule(
    code="JM144",
    name="private-cuda-api",
    summary="CUDA is reached around PyTorch's public interface.",
    severity=Severity.WARNING,
    doc=__doc__,
)


_LIBRARY = re.compile(r"(lib)?(cuda(rt)?|nvrtc|nvToolsExt|cublas|cudnn|cufft|nvidia-ml|nccl)(\.so[\d.]*|\d*_?\d*\.dll)")
_PRIVATE = re.compile(
    r"torch\.(ops\.aten\.)?cudnn_|torch\._C\.(_cuda|_cudnn|_nvtx|_nccl|Cuda)|torch\._C\._get_cublas|torch\._C\..*cublas",
    re.I,
)
_REGISTRATIONS = frozenset({"impl", "register_kernel", "register_autocast", "custom_op", "Library", "triton_op"})
_LOOKUPS = frozenset({"builtins.getattr", "builtins.hasattr", "builtins.setattr", "builtins.delattr"})
_CUDA = re.compile(r"cuda|nccl|nvtx|cudnn|cublas", re.IGNORECASE)


def find(context: Context) -> Iterator[Proposal]:
    """Report private names, libraries of CUDA, registrations and look-ups by name."""
    source = context.source
    for reference in distinct(source.references):
        if _PRIVATE.match(reference.name) and not context.covered(source.span(reference.node)):
            yield Proposal(
                rule=RULE, span=source.span(reference.node),
                message=f"`{reference.name}` is private to PyTorch's CUDA build.",
                action="Use the public name of torch.cuda, which is converted, or remove it.",
            )  # fmt: skip
        elif reference.call is not None:
            yield from _call(context, reference, reference.call)
    for text in literals(source):
        if text.body.startswith(("aten::cudnn_", "aten::_cudnn", "aten::cublas")):
            yield Proposal(
                rule=RULE, span=source.span(text.node), message=f"`{text.body}` is an operator of cuDNN.",
                action="Use the operator without cudnn in its name, which every device has.",
            )  # fmt: skip
    for node in source.methods:
        call = source.called(node)
        if call is not None and node.attr.value in ("impl", "register_kernel"):
            yield from _registration(context, call)


def _call(context: Context, reference: Reference, call: cst.Call) -> Iterator[Proposal]:
    source = context.source
    if reference.name.startswith("ctypes."):
        yield from _library(source, call)
    elif reference.name.startswith("torch.library.") or reference.name.startswith("torch._library"):
        if callee_name(call) in _REGISTRATIONS:
            yield from _registration(context, call)
    elif reference.name in _LOOKUPS and len(call.args) >= 2:
        yield from _lookup(context, call)


def _library(source: Source, call: cst.Call) -> Iterator[Proposal]:
    for argument in call.args:
        text = literal(source, argument.value)
        if text is not None and _LIBRARY.search(text.body):
            yield Proposal(
                rule=RULE, span=source.span(text.node), message=f"`{text.body}` is a library of CUDA.",
                action="Use torch.npu; the NPU's runtime is libascendcl.so.",
            )  # fmt: skip


def _registration(context: Context, call: cst.Call) -> Iterator[Proposal]:
    """Report operators that get a kernel for CUDA and none for the NPU."""
    source = context.source
    for argument in call.args:
        text = literal(source, argument.value)
        if text is None or text.body not in ("CUDA", "cuda", "AutogradCUDA", "AutocastCUDA"):
            continue
        if context.covered(source.span(text.node)):
            continue
        yield Proposal(
            rule=RULE, span=source.span(text.node), confidence="likely",
            message=f"An operator gets a kernel for {text.body}; on an NPU it is called without one.",
            action="Register a kernel of PyTorch operators for 'PrivateUse1', or for every device "
            "('CompositeExplicitAutograd').",
        )  # fmt: skip


def _lookup(context: Context, call: cst.Call) -> Iterator[Proposal]:
    """Report attributes of torch looked up by a name that says CUDA, or by a name that is not known here."""
    source = context.source
    owner = source.qualified(call.args[0].value) or ""
    if owner != "torch" and not owner.startswith("torch."):
        return
    text = literal(source, call.args[1].value)
    body = text.body if text is not None and text.num_fields == 0 else None
    if body is None and not _CUDA.search(owner):
        return
    if body is not None and not (_CUDA.search(body) and owner != "torch.cuda"):
        return
    span = source.span(call.args[1].value)
    if context.covered(span):
        return
    what = f"'{body}'" if body is not None else f"`{source.code(call.args[1].value)}`"
    yield Proposal(
        rule=RULE, span=span, severity=Severity.ADVICE, confidence="possible",
        message=f"{what} is looked up on {owner} by name.",
        action="Check that the name is there on an NPU, or that its absence is handled.",
    )  # fmt: skip
