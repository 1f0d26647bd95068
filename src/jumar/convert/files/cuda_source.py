"""C++ and CUDA sources of operators: one finding a file, with what it binds (JM126)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from jumar.base.findings import Severity
from jumar.base.text import listing
from jumar.convert.files.draft.drafting import convert_with
from jumar.convert.files.draft.kind import FileKind, is_text
from jumar.convert.model.edits import Proposal
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Outcome
from jumar.convert.model.project import ProjectFacts
from jumar.convert.rules.files.cuda_extension_source import RULE

_CUDA_SUFFIXES = frozenset({".cu", ".cuh"})
_CPP_SUFFIXES = frozenset({".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".hh", ".hxx", ".inl"})
_COMMENT_OR_STRING = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", re.DOTALL)
_BINDS = re.compile(rb"PYBIND11_MODULE|TORCH_LIBRARY|RegisterOperators|torch::class_")
_CUDA = re.compile(rb"cuda", re.IGNORECASE)
_MODULE = re.compile(r"\b(PYBIND11_MODULE|TORCH_LIBRARY(?:_FRAGMENT|_IMPL)?)\s*\(([^)]*)\)")
_BINDING = re.compile(
    r"\b\w+\s*\.\s*(?:def|impl)\s*\(\s*(?:TORCH_SELECTIVE_(?:SCHEMA|NAME)\s*\(\s*)?\"((?:[^\"\\]|\\.)*)\""
)
_CHAINED = re.compile(r"[)\s]\.\s*def\s*\(\s*\"([\w:.]+)")
_KERNEL = re.compile(
    r"\b__global__\s+(?:static\s+|inline\s+)*(?:void|\w+)\s*(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\("
)
_OPERATOR = re.compile(r"(?:\w+::)?([A-Za-z_]\w*)")

_COUNTERPARTS = (
    ("deform_conv", "torchvision.ops.deform_conv2d, or torch_npu.npu_deformable_conv2d"),
    ("roi_align", "torchvision.ops.roi_align, or torch_npu.npu_roi_align"),
    ("nms", "torchvision.ops.nms, or torch_npu.npu_nms_v4"),
    ("ms_deform_attn", "torch.nn.functional.grid_sample, as the PyTorch version in the same repository does"),
    ("flash", "torch.nn.functional.scaled_dot_product_attention, or torch_npu.npu_fusion_attention"),
    ("rms_norm", "torch_npu.npu_rms_norm"),
    ("rmsnorm", "torch_npu.npu_rms_norm"),
    ("layer_norm", "torch.nn.functional.layer_norm"),
    ("rotary", "torch_npu.npu_rotary_mul"),
    ("swiglu", "torch_npu.npu_swiglu"),
    ("softmax", "torch.nn.functional.softmax, or torch_npu.npu_scaled_masked_softmax"),
    ("multi_tensor", "the fused optimizers of torch_npu.optim"),
    ("adam", "torch_npu.optim.NpuFusedAdam or NpuFusedAdamW"),
    ("upfirdn2d", "the PyTorch version (upfirdn2d_ref or _native) in the same repository"),
    ("bias_act", "the PyTorch version (bias_act_ref or _native) in the same repository"),
    ("fused_act", "the PyTorch version (fused_leaky_relu_native) in the same repository"),
)
"""Part of an operator's name -> what does the same on an NPU."""


def _is_cuda_source(path: PurePosixPath, data: bytes) -> bool:
    suffix = path.suffix.lower()
    if suffix in _CUDA_SUFFIXES:
        return is_text(data)
    binds = suffix in _CPP_SUFFIXES and _BINDS.search(data) is not None and _CUDA.search(data) is not None
    return binds and is_text(data)


def _convert(data: bytes, path: str, options: ConvertOptions, project: ProjectFacts) -> Outcome:
    def propose(text: str, _: ConvertOptions, __: ProjectFacts) -> Iterator[Proposal]:
        yield _report(text, PurePosixPath(path).suffix.lower() in _CUDA_SUFFIXES)

    return convert_with(data, path, options, project, propose, trigger=None, is_run=False)


def _report(text: str, is_cuda: bool) -> Proposal:
    code = without_comments(text)
    operators, kernels = bound_operators(code), sorted(set(_KERNEL.findall(code)))
    module = _MODULE.search(code)
    span = module.span() if module is not None else (0, min(len(text), text.find("\n") + 1 or len(text)))
    what = f"binds {listing(operators, 6)}" if operators else "binds no operator itself"
    kind = "CUDA source" if is_cuda else "C++ source for CUDA"
    known = _counterparts(operators or kernels)
    evidence = {"operators": list(operators), "kernels": list(kernels), "libraries": _libraries(code)}
    return Proposal(
        rule=RULE,
        span=span,
        message=f"The {kind} {what}" + (f" and defines {listing(kernels, 6)}." if kernels else "."),
        severity=Severity.WARNING if operators or kernels else Severity.INFO,
        action=(f"On an NPU use {'; '.join(known)}. " if known else "")
        + "Keep a PyTorch implementation for other devices, or write the kernel in Ascend C and register it for"
        " PrivateUse1 with torch_npu.utils.cpp_extension.NpuExtension.",
        evidence=evidence,
    )


def _counterparts(names: list[str]) -> list[str]:
    found = [hint for part, hint in _COUNTERPARTS if any(part in name.lower() for name in names)]
    return list(dict.fromkeys(found))


def _libraries(code: str) -> list[str]:
    names = re.findall(r"TORCH_LIBRARY(?:_FRAGMENT|_IMPL)?\s*\(\s*(\w+)", code)
    return list(dict.fromkeys(names))


def without_comments(text: str) -> str:
    """Return C++ text with its comments blanked; every offset stays."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        return found if found[0] in "\"'" else re.sub(r"[^\n]", " ", found)

    return _COMMENT_OR_STRING.sub(blank, text)


def bound_operators(code: str) -> list[str]:
    """Return the names that `m.def`, `m.impl` and their chains bind in PYBIND11_MODULE and TORCH_LIBRARY blocks."""
    names: dict[str, None] = {}
    for block in _blocks(code):
        for pattern in (_BINDING, _CHAINED):
            for found in pattern.findall(block):
                match = _OPERATOR.match(found.strip())
                if match is not None:
                    names[match.group(1)] = None
    return list(names)


def _blocks(code: str) -> Iterator[str]:
    """Yield the bodies of binding blocks, to their closing brace."""
    for match in _MODULE.finditer(code):
        opening = code.find("{", match.end())
        if opening < 0:
            continue
        depth = 0
        for position, char in _braces(code, opening):
            depth += 1 if char == "{" else -1
            if depth == 0:
                yield code[opening : position + 1]
                break
        else:
            yield code[opening:]


def _braces(code: str, start: int) -> Iterator[tuple[int, str]]:
    for match in re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|[{}]").finditer(code, start):
        if match.group() in "{}":
            yield match.start(), match.group()


CUDA_SOURCE: FileKind = FileKind(name="CUDA source", matches=_is_cuda_source, convert=_convert)
