"""## What it does
Finds where CUDA code is built or loaded: `CUDAExtension` and other parts of `torch.utils.cpp_extension`, lists of
`.cu` files, `torch.ops.load_library`, and imports of compiled modules whose name says CUDA (`from . import
iou3d_nms_cuda`). A finding tells which sources a build names. Extensions of C++ alone are told apart: they build
on an NPU machine, too.

## Why it matters
No conversion of Python makes a `.cu` file compile without `nvcc`: the setup fails, or the import of its module does.

## Example
```python
ext_modules = [CUDAExtension('upfirdn2d', ['upfirdn2d.cpp', 'upfirdn2d_kernel.cu'])]
```

## Use instead
```python
ext_modules = []  # the PyTorch formula beside the kernel runs everywhere
```

## Fix safety
No fix: the kernel has to be replaced by PyTorch operators, by an operator of `torch_npu.contrib`, or ported to
Ascend C and built with `torch_npu.utils.cpp_extension.NpuExtension`.

## References
- torch_npu 2.13 public API (`torch_npu.utils.cpp_extension.NpuExtension`, `torch_npu.contrib`)
- https://pytorch.org/docs/stable/cpp_extension.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.spans import Span
from jumar.convert.rules.subject.context import Context, keyword
from jumar.convert.rules.subject.places import distinct, is_optional, lines_of, summary
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.source import Reference, Source, imported_name
from jumar.convert.syntax.tree import descendants

RULE = Rule(
    code="JM131",
    name="cuda-extension",
    summary="CUDA code is built or loaded.",
    severity=Severity.WARNING,
    doc=__doc__,
)


_MODULE = "torch.utils.cpp_extension."
_BUILDERS = frozenset({"CUDAExtension", "load", "load_inline", "CppExtension"})
_PARTS = frozenset({"CUDA_HOME", "CUDNN_HOME", "COMMON_NVCC_FLAGS", "include_paths", "library_paths"})
_LOADERS = frozenset({"torch.ops.load_library", "torch.classes.load_library"})
_CU = re.compile(r"\.cuh?\b")
_COMPILED = re.compile(r"(^|_)cuda($|_)|cuda(_ext)?$", re.IGNORECASE)

_PORT = (
    "Replace it by PyTorch operators or one of torch_npu.contrib, or port it to Ascend C and build it with "
    "torch_npu.utils.cpp_extension.NpuExtension."
)


def find(context: Context) -> Iterator[Proposal]:
    """Report what builds or loads CUDA code."""
    source = context.source
    claimed: list[Span] = []
    for reference in distinct(source.references):
        for proposal in _reference(context, reference):
            if reference.call is not None:
                claimed.append(source.span(reference.call))
            yield proposal
    yield from _cu_files(context, claimed)
    yield from _compiled_imports(context)


def _reference(context: Context, reference: Reference) -> Iterator[Proposal]:
    span = context.source.span(reference.node)
    name = reference.name.removeprefix(_MODULE)
    if reference.name in _LOADERS and reference.call is not None:
        yield Proposal(
            rule=RULE, span=span, severity=Severity.WARNING, confidence="likely",
            message=f"`{reference.name}` loads compiled operators; their NPU kernels have to be built, too.",
            action="Check which dispatch keys the library registers (CUDA alone does not run on an NPU). " + _PORT,
        )  # fmt: skip
    elif reference.name == name or context.covered(span):
        return
    elif name in _BUILDERS and reference.call is not None:
        yield _build(context, reference, reference.call, name)
    elif name in _PARTS:
        yield Proposal(
            rule=RULE, span=span, severity=Severity.ADVICE,
            message=f"`{reference.name}` tells of the CUDA toolkit, which an NPU machine does not have.",
            action="Build without CUDA where it is None.",
        )  # fmt: skip


def _build(context: Context, reference: Reference, call: cst.Call, name: str) -> Proposal:
    """Judge one build by the sources its call names."""
    source = context.source
    files = [text for text in _texts(source, call) if _CU.search(text)]
    with_cuda = keyword(call, "with_cuda") or keyword(call, "cuda_sources")
    cuda = (
        bool(files)
        or name == "CUDAExtension"
        or (with_cuda is not None and not is_named(with_cuda.value, "False", "None"))
    )
    plain = name == "CppExtension" and not files
    if cuda:
        message = f"`{name}` builds CUDA code" + (f": {', '.join(files[:6])}." if files else ".")
        severity = Severity.WARNING
    else:
        message = f"`{name}` builds an extension; its sources are not named CUDA here."
        severity = Severity.INFO if plain else Severity.ADVICE
    return Proposal(
        rule=RULE,
        span=source.span(reference.node),
        severity=severity,
        confidence="certain" if files or name == "CUDAExtension" else "likely",
        message=message,
        action=_PORT if cuda else "Nothing to do for C++ alone; CUDA sources have to be ported.",
        evidence={"sources": list(files)},
    )


def _texts(source: Source, node: cst.CSTNode) -> Iterator[str]:
    for found in descendants(node):
        text = literal(source, found)
        if text is not None and text.num_fields == 0:
            yield text.body


def _cu_files(context: Context, claimed: list[Span]) -> Iterator[Proposal]:
    """Report file names of CUDA sources that stand outside a build that was reported."""
    source = context.source
    spans = []
    for node in source.nodes(cst.SimpleString):
        text = node.raw_value
        if not text.endswith((".cu", ".cuh")) or any(char in text for char in "\n "):
            continue
        span = source.span(node)
        if not any(start <= span[0] < end for start, end in claimed):
            spans.append(span)
    yield from summary(
        source, RULE, spans, "CUDA sources are named", severity=Severity.ADVICE, action=_PORT, confidence="likely"
    )


def _compiled_imports(context: Context) -> Iterator[Proposal]:
    """Report imports of modules whose own name says that they are compiled from CUDA."""
    source = context.source
    for alias in source.nodes(cst.ImportAlias):
        statement = source.parent(alias)
        name = imported_name(alias, statement) or ""
        if name.startswith(("torch.", "torch_npu", "nvidia.", "numba.")) or name == "torch":
            continue
        last = name.rpartition(".")[2]
        span = source.span(alias.name)
        if not _COMPILED.search(last) or not _looks_like_module(source, alias, last) or context.covered(span):
            continue
        optional = is_optional(source, alias)
        uses = lines_of(source, _uses(source, alias))
        yield Proposal(
            rule=RULE, span=span, confidence="likely",
            severity=Severity.ADVICE if optional else Severity.WARNING,
            message=f"`{last}` reads as a module compiled from CUDA" + (" (optional here)." if optional else "."),
            action="Keep the PyTorch path for the NPU, or write one. " + _PORT,
            evidence={"lines": list(uses), "optional": optional},
        )  # fmt: skip


def _looks_like_module(source: Source, alias: cst.ImportAlias, last: str) -> bool:
    """Tell whether the imported thing is used as a module, not called as a function (`is_cuda_available()`)."""
    if last.isupper() or "is_" in last or last.startswith(("has_", "use_", "get_", "to_", "check_", "test_")):
        return False
    bound = alias.evaluated_alias or last
    references = [ref for ref in source.references if ref.chain[0].value == bound] if bound else []
    return not any(len(ref.chain) == 1 and ref.call is not None for ref in references)


def _uses(source: Source, alias: cst.ImportAlias) -> Iterator[Span]:
    bound = alias.evaluated_alias or imported_name(alias, source.parent(alias)) or ""
    bound = bound.rpartition(".")[2]
    for reference in source.references:
        if reference.call is not None and reference.chain[0].value == bound:
            yield source.span(reference.node)
