"""## What it does
Reports every other name or string that speaks of CUDA, NCCL or NVIDIA's tools and that no other rule
changed or reported, so that nothing is left silently. Names of PyTorch that mean CUDA, calls of
`nvidia-smi` and matches on "CUDA out of memory" are reported where they stand; a program's own names
(`use_cuda`, `args.no_cuda`), names of other packages (`CUDAAccelerator`), paths and messages are summed up in one note
a file.

## Why it matters
What stays is either harmless (a flag's name) or the next failure. A reader should see which.

## Example
```python
if 'CUDA out of memory' in str(error):
    retry()
subprocess.run(['nvidia-smi'])
```

## Use instead
```python
if 'out of memory' in str(error):
    retry()
subprocess.run(['npu-smi', 'info'])
```

## Fix safety
No fix.

## References
- torch_npu 2.13 (its message is "NPU out of memory")
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sized

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.spans import Span
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.source import Reference, Source

RULE = Rule(
    code="JM114",
    name="cuda-left-over",
    summary="A name or string still speaks of CUDA.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

_WORD = re.compile(r"cuda|nccl|nvidia|nvml|cudnn|cublas", re.IGNORECASE)
_MAX_NAMED = 8


def find(context: Context) -> Iterator[Proposal]:
    """Report the names and texts that still contain CUDA after every other rule."""
    yield from _references(context)
    yield from _strings(context)
    yield from _identifiers(context)


def _references(context: Context) -> Iterator[Proposal]:
    source = context.source
    seen: set[Span] = set()
    for reference in source.references:
        span = source.span(reference.node)
        if span in seen or not reference.name.startswith("torch.") or not _WORD.search(reference.name):
            continue
        seen.add(span)
        if not _means_cuda_here(source, reference.node) or _comes_converted(context, reference):
            continue
        if not context.within_covered(span):
            yield Proposal(
                rule=RULE, span=span, severity=Severity.WARNING,
                message=f"`{reference.name}` speaks of CUDA and was left.",
                action="Check what it returns on an NPU (torch.version.cuda is None there).",
            )  # fmt: skip


def _means_cuda_here(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether the word stands at this place; an alias is reported at its import."""
    return _WORD.search(source.code(node)) is not None


def _comes_converted(context: Context, reference: Reference) -> bool:
    """Tell whether the word is only the name of an import that was converted: `from torch import npu as cuda`."""
    source, root = context.source, reference.chain[0]
    beyond = source.code(reference.node).partition(".")[2]
    imports = [
        binding.node for binding in source.scope(root).bindings_of(source.code(root)) if binding.kind == "import"
    ]
    is_edited = bool(imports) and all(context.edited(source.span(node)) for node in imports)
    return is_edited and _WORD.search(beyond) is None


def _strings(context: Context) -> Iterator[Proposal]:
    source = context.source
    mentions: list[Span] = []
    texts: list[cst.SimpleString | cst.FormattedStringText] = [
        *source.nodes(cst.SimpleString),
        *source.nodes(cst.FormattedStringText),
    ]
    for node in texts:
        text = node.raw_value if isinstance(node, cst.SimpleString) else node.value
        if not _WORD.search(text) or isinstance(source.parent(node), cst.Expr):
            continue
        span = source.span(node)
        if context.within_covered(span):
            continue
        if "nvidia-smi" in text:
            yield _string(span, "nvidia-smi is not there on an NPU machine.", "Call npu-smi info.")
        elif "cuda out of memory" in text.lower():
            yield _string(span, 'The NPU says "NPU out of memory".', "Catch torch.OutOfMemoryError instead.")
        else:
            mentions.append(span)
    if mentions:
        lines = sorted({source.text.position(span[0])[0] for span in mentions})
        yield Proposal(
            rule=RULE, span=mentions[0], severity=Severity.INFO, confidence="possible",
            evidence={"num_uses": len(mentions), "lines": list(lines)},
            message=f"{_count(mentions, 'string')} (messages, paths, keys) naming CUDA left as is: {_lines(lines)}.",
        )  # fmt: skip


def _string(span: Span, message: str, action: str) -> Proposal:
    return Proposal(rule=RULE, span=span, severity=Severity.WARNING, message=message, action=action)


def _count(items: Sized, noun: str) -> str:
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"


def _lines(lines: list[int]) -> str:
    shown = ", ".join(str(line) for line in lines[:_MAX_NAMED])
    return f"line{'s' if len(lines) > 1 else ''} {shown}" + (" and more" if len(lines) > _MAX_NAMED else "")


def _identifiers(context: Context) -> Iterator[Proposal]:
    """Report the names of the program and of other packages that contain CUDA, once a file."""
    source = context.source
    names: Counter[str] = Counter()
    first: Span | None = None
    for node, name in _names(source):
        if not _WORD.search(name):
            continue
        span = source.span(node)
        if context.within_covered(span):
            continue
        names[name] += 1
        first = span if first is None or span < first else first
    if first is not None:
        shown = ", ".join(f"`{name}`" for name, _ in names.most_common(_MAX_NAMED))
        yield Proposal(
            rule=RULE, span=first, severity=Severity.INFO, confidence="possible",
            evidence={"names": dict(names)},
            message=f"{_count(names, 'name')} of this file or of other packages naming CUDA left as is: {shown}.",
        )  # fmt: skip


def _names(source: Source) -> Iterator[tuple[cst.CSTNode, str]]:
    for node in source.nodes(cst.Name):
        if source.qualified(node) is None:
            yield node, node.value
    for reference in source.references:
        if not reference.name.startswith("torch.") and _means_cuda_here(source, reference.node):
            yield reference.node, reference.name
    for argument in source.nodes(cst.Arg):
        if argument.keyword is not None:
            yield argument.keyword, argument.keyword.value
    for attribute in source.methods:
        yield attribute.attr, attribute.attr.value
    definitions: list[cst.FunctionDef | cst.ClassDef] = [*source.nodes(cst.FunctionDef), *source.nodes(cst.ClassDef)]
    for definition in definitions:
        yield definition.name, definition.name.value
    for parameter in source.nodes(cst.Param):
        yield parameter.name, parameter.name.value
