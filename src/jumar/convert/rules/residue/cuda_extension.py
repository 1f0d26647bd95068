"""## What it does
Finds where CUDA code is built or loaded: `CUDAExtension` and other parts of `torch.utils.cpp_extension`, lists of
`.cu` files, `torch.ops.load_library`. A finding tells which sources a build names. Extensions of C++ alone are told
apart: they build on an NPU machine, too.

Imports of compiled modules are found by any name: modules that the project's own setup.py builds from CUDA, modules
whose name says so (`from . import iou3d_nms_cuda`, `import pkg._ext`), and modules without Python source here whose
functions an `autograd.Function` calls. Operators of `torch.ops` that neither PyTorch nor the file makes are
reported, too.

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
import sys
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.spans import Span
from jumar.convert.rules.subject.context import Context, keyword
from jumar.convert.rules.subject.counterparts import library_of
from jumar.convert.rules.subject.guards.cuda_only import is_autograd_function
from jumar.convert.rules.subject.places import distinct, is_optional, lines_of, summary
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.scopes import is_named, last_name
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

_PRIVATE = re.compile(r"_C|_?ext|_c|_[a-z0-9_]*(?:ext|kernels?|ops?|backend|native|cpp|gpu)|\w+_(?:ext|C|cpp)")
"""How modules that are compiled are called, by convention."""
_TORCH_ONLY = frozenset({"_C", "_ext"})
"""Names of compiled modules that only extensions of PyTorch have, also where the importing file names no torch."""
_KERNEL_CALL = re.compile(r"forward|backward|fwd|bwd|kernel", re.IGNORECASE)
_LOAD = re.compile(r"load|import|compile|build|get_ext|jit|lazy", re.IGNORECASE)
"""Functions that bring in a module are called so (`ext_loader.load_ext`, `importlib.import_module`)."""
_PURE = sys.stdlib_module_names | {
    *("numpy", "scipy", "sklearn", "pandas", "PIL", "cv2", "matplotlib", "torchvision", "torchaudio", "einops", "tqdm"),
    *("pytest", "_pytest", "setuptools", "pkg_resources", "yaml", "six", "transformers", "opt_einsum", "jax", "sympy"),
    *("tensorflow", "google", "IPython", "requests", "absl", "omegaconf", "hydra", "lightning", "pytorch_lightning"),
    *("skimage", "networkx", "h5py", "accelerate", "diffusers", "datasets", "timm", "torch", "torch_npu", "keras"),
}
"""Packages whose modules are no CUDA kernels, whatever they are called."""
_OWN_LIBRARIES = frozenset(
    {"aten", "prim", "prims", "quantized", "quantized_decomposed", "torchvision", "torchaudio", "npu", "image", "c10d"}
    | {
        "c10d_functional",
        "_c10d_functional",
        "mkldnn",
        "mkldnn_prepacked",
        "sparse",
        "profiler",
        "inductor",
        "rngprims",
    }
    | {"higher_order", "symm_mem", "streams", "tensorexpr", "fsdp", "xla", "mtia", "_quantized", "load_library"}
)
"""Libraries of operators that PyTorch, its siblings and torch_npu bring."""

_PLAIN = "Nothing to do for C++ alone; CUDA sources have to be ported."
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
    yield from _loaded_modules(context)
    yield from _foreign_operators(context)


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
    path = _torch_path(source, _assigned(source, call)) if cuda and name in ("load", "load_inline") else ()
    is_told = cuda and name in ("load", "load_inline")
    return Proposal(
        rule=RULE,
        span=source.span(reference.node),
        severity=severity,
        confidence="certain" if files or name == "CUDAExtension" else "likely",
        message=message,
        action=_with_path(path) if is_told else _PORT if cuda else _PLAIN,
        evidence={"sources": list(files), "torch_path": list(path)},
    )


def _torch_path(source: Source, name: str) -> tuple[str, ...]:
    from jumar.convert.rules.subject.guards.torch_path import torch_path  # few files build an extension

    return torch_path(source, name)


def _with_path(path: tuple[str, ...]) -> str:
    from jumar.convert.rules.subject.guards.torch_path import path_sentence

    return f"{path_sentence(path)} {'Else r' if path else 'R'}{_PORT[1:]}"


def _assigned(source: Source, call: cst.Call) -> str:
    """Return the variable that a call's result goes to, empty for none."""
    assign = source.parent(call)
    return last_name(assign.targets[0].target) if isinstance(assign, cst.Assign) else ""


def _texts(source: Source, node: cst.CSTNode) -> Iterator[str]:
    for found in descendants(node):
        text = literal(source, found)
        if text is not None and text.num_fields == 0:
            yield text.body


def _cu_files(context: Context, claimed: list[Span]) -> Iterator[Proposal]:
    """Report file names of CUDA sources that stand outside a build that was reported."""
    source = context.source
    spans = []
    path: tuple[str, ...] = ()
    for node in source.nodes(cst.SimpleString):
        text = node.raw_value
        if not text.endswith((".cu", ".cuh")) or any(char in text for char in "\n "):
            continue
        span = source.span(node)
        if not any(start <= span[0] < end for start, end in claimed):
            spans.append(span)
            loading = [around for around in source.ancestors(node) if isinstance(around, cst.Call)]
            path = path or _torch_path(source, next(filter(None, (_assigned(source, call) for call in loading)), ""))
    yield from summary(
        source, RULE, spans, "CUDA sources are named", severity=Severity.ADVICE, confidence="likely",
        action=_with_path(path) if path else _PORT, evidence={"torch_path": list(path)},
    )  # fmt: skip


def _compiled_imports(context: Context) -> Iterator[Proposal]:
    """Report imports of modules whose own name says that they are compiled from CUDA."""
    source = context.source
    for alias in source.nodes(cst.ImportAlias):
        statement = source.parent(alias)
        name = imported_name(alias, statement) or ""
        if name.startswith(("torch.", "torch_npu", "nvidia.", "numba.")) or name == "torch":
            continue
        span = source.span(alias.name)
        told = None if context.covered(span) or library_of(name) is not None else _compiled(source, alias, name)
        if told is None:
            continue
        last, why = told
        optional = is_optional(source, alias)
        uses = lines_of(source, _uses(source, alias))
        path = _torch_path(source, alias.evaluated_alias or last)
        yield Proposal(
            rule=RULE, span=span, confidence="likely",
            severity=Severity.ADVICE if optional or why == _CONVENTION else Severity.WARNING,
            message=f"`{last}` {why}" + (" (optional here)." if optional else "."),
            action=_with_path(path),
            evidence={"lines": list(uses), "optional": optional, "torch_path": list(path)},
        )  # fmt: skip


_CONVENTION = "reads as a compiled module, for which there is no Python source here"


def _compiled(source: Source, alias: cst.ImportAlias, name: str) -> tuple[str, str] | None:
    """Return the module of an import that is compiled from CUDA, and what tells so; None for any other."""
    module, _, last = name.rpartition(".")
    taken = isinstance(source.parent(alias), cst.ImportFrom)
    for built in (name, module or name):
        if built in source.facts.extensions:
            return built.rpartition(".")[2], "is built from CUDA by this project"
    if _COMPILED.search(last) and _looks_like_module(source, alias, last):
        return last, "reads as a module compiled from CUDA"
    root = name.lstrip(".").partition(".")[0]
    is_python = name in source.facts.sources or (taken and module.rstrip(".") and module in source.facts.sources)
    inner = (module or "").rpartition(".")[2] if taken else ""
    is_of_torch = "torch" in source.text.text or not _TORCH_ONLY.isdisjoint((last, inner))
    if is_python or (not name.startswith(".") and root in _PURE) or not is_of_torch:
        return None
    for leaf in (last, inner):
        if _PRIVATE.fullmatch(leaf) and (leaf == inner or _looks_like_module(source, alias, leaf)):
            return leaf, _CONVENTION
    if _is_called_in_function(source, alias, last):
        return last, "holds functions that an autograd.Function calls, and no Python source here defines them: compiled"
    return None


def _is_called_in_function(source: Source, alias: cst.ImportAlias, last: str) -> bool:
    """Tell whether a class derived from `autograd.Function` calls a function of a module, as wrappers of kernels do."""
    bound = alias.evaluated_alias or last
    for reference in source.references:
        if reference.call is None or reference.chain[0].value != bound:
            continue
        if len(reference.chain) == 1 and not _KERNEL_CALL.search(bound):
            continue
        around = source.enclosing(reference.node, cst.ClassDef)
        if around is not None and is_autograd_function(source, around):
            return True
    return False


def _loaded_modules(context: Context) -> Iterator[Proposal]:
    """Report variables that hold a compiled module: a function loads it, and an `autograd.Function` calls into it."""
    source = context.source
    seen: set[cst.CSTNode] = set()
    for function in (node for node in source.nodes(cst.ClassDef) if is_autograd_function(source, node)):
        for node in descendants(function):
            if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
                continue
            owner = node.func.value
            bindings = source.scope(owner).bindings_of(owner.value) if isinstance(owner, cst.Name) else []
            for value in (binding.value for binding in bindings):
                if not isinstance(value, cst.Call) or value in seen or not _loads(source, value):
                    continue
                seen.add(value)
                if not context.within_covered(source.span(value)):
                    yield Proposal(
                        rule=RULE, span=source.span(value.func), confidence="likely", action=_PORT,
                        message=f"`{source.code(value.func)}` loads a compiled module, whose functions"
                        f" {function.name.value} calls.",
                    )  # fmt: skip


def _loads(source: Source, call: cst.Call) -> bool:
    """Tell whether a module-level call brings in a module: by its name, and as no name of torch."""
    name = source.qualified(call.func) or ""
    leaf = name.rpartition(".")[2] or last_name(call.func)
    is_outer = source.enclosing(call, cst.FunctionDef, cst.ClassDef) is None
    return is_outer and not name.startswith("torch.") and _LOAD.search(leaf) is not None


def _foreign_operators(context: Context) -> Iterator[Proposal]:
    """Report operators of `torch.ops` whose library is neither PyTorch's nor made in this file."""
    source = context.source
    spans: dict[str, list[Span]] = {}
    for reference in distinct(source.references):
        parts = reference.name.split(".")
        if parts[:2] != ["torch", "ops"] or len(parts) < 4 or parts[2] in _OWN_LIBRARIES:
            continue
        made = re.search(rf"['\"]{re.escape(parts[2])}(?:::|['\"])", source.text.text)
        if made is None and not context.covered(source.span(reference.node)):
            spans.setdefault(parts[2], []).append(source.span(reference.node))
    for library, places in spans.items():
        yield from summary(
            source, RULE, places, f"`torch.ops.{library}` is a library of compiled operators",
            severity=Severity.ADVICE, action="Check that it has kernels for the NPU. " + _PORT, confidence="likely",
        )  # fmt: skip


def _looks_like_module(source: Source, alias: cst.ImportAlias, last: str) -> bool:
    """Tell whether the imported thing is used as a module, not called as a function (`is_cuda_available()`)."""
    if (
        (last.isupper() and not last.startswith("_"))
        or "is_" in last
        or last.startswith(("has_", "use_", "get_", "to_", "check_", "test_"))
    ):
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
