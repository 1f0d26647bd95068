"""## What it does
Finds TorchScript and `torch.compile`: scripting and tracing, CUDA's fusers (`torch.jit.fuser`,
`torch._C._jit_set_nvfuser_enabled`), compile modes and back ends that are CUDA's (`mode='max-autotune'`,
`backend='cudagraphs'`, `options={'triton.cudagraphs': True}`), and settings of Inductor's Triton part.

## Why it matters
TorchScript runs on an NPU operator by operator: the fusers it was used for are CUDA's, and the vendor verified
tracing for float32 inputs only. `torch.compile` needs triton-ascend, and of its modes only the default and
`reduce-overhead` are documented.

## Example
```python
model = torch.compile(model, mode='max-autotune')
```

## Use instead
```python
model = torch.compile(model)
```

## Fix safety
No fix: whether compiling pays has to be measured.

## References
- Ascend/pytorch `docs/zh/user_guide/torch_compile/overview.md` (back ends, modes)
- Ascend/pytorch `docs/zh/api/native_api/pytorch_2-7-1/torch-jit.md`
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
from jumar.convert.rules.subject.places import distinct, summary
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.source import Reference, Source

RULE = Rule(
    code="JM136",
    name="graph-compiler",
    summary="TorchScript or torch.compile is used.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


_KINDS = (
    (
        re.compile(r"torch\.jit\.script(_method|_if_tracing)?$"),
        "Code is scripted with torch.jit; it runs without CUDA's fusers",
        "Check its results and speed on the NPU; torch.jit.script can be left out.",
        Severity.ADVICE,
    ),
    (
        re.compile(r"torch\.jit\.trace(_module)?$"),
        "Code is traced with torch.jit; the vendor verified it for float32 inputs",
        "Trace on the CPU in float32, or export ONNX.",
        Severity.ADVICE,
    ),
    (
        re.compile(r"torch\.jit\.fuser|torch\._C\._jit_\w*(set|override|nvfuser|fusion|fuser|texpr)"),
        "TorchScript's fusers are set; none of them works for an NPU",
        "Leave the setting out on an NPU.",
        Severity.ADVICE,
    ),
    (
        re.compile(r"torch\._inductor\.config\.(triton|cuda|max_autotune)"),
        "Inductor's Triton or CUDA part is set",
        "Check the setting with triton-ascend.",
        Severity.INFO,
    ),
)
"""Kinds of names, each reported once a file: pattern, message, action and severity."""
_MODES = frozenset({"default", "reduce-overhead"})
_BACKENDS = frozenset({"inductor", "npugraphs", "npugraph_ex", "aot_eager", "eager", "jumar", "npu"})


def find(context: Context) -> Iterator[Proposal]:
    """Report scripting and tracing once a file, and each compilation that asks for CUDA's own."""
    source = context.source
    kinds: list[list[Span]] = [[] for _ in _KINDS]
    plain: list[Span] = []
    for reference in distinct(source.references):
        span = source.span(reference.node)
        if reference.name in ("torch.compile", "torch._dynamo.optimize"):
            found = list(_compile(source, reference))
            yield from found
            plain += [] if found or not _uses_inductor(source, reference) else [span]
        for spans, (pattern, *_) in zip(kinds, _KINDS, strict=True):
            if pattern.match(reference.name):
                spans.append(span)
    for spans, (_, message, action, severity) in zip(kinds, _KINDS, strict=True):
        yield from summary(source, RULE, spans, message, severity=severity, action=action)
    yield from summary(
        source, RULE, plain, "torch.compile needs triton-ascend on an NPU",
        severity=Severity.ADVICE, action="Install triton-ascend, or choose another back end (npugraphs, aot_eager).",
    )  # fmt: skip


def _uses_inductor(source: Source, reference: Reference) -> bool:
    """Tell whether the back end is the default or computed, not one that compiles nothing for the device."""
    argument = keyword(reference.call, "backend") if reference.call is not None else None
    text = literal(source, argument.value) if argument is not None else None
    return text is None or text.body == "inductor"


def _compile(source: Source, reference: Reference) -> Iterator[Proposal]:
    """Report what one call asks for that is CUDA's."""
    if reference.call is None:
        return
    for name, known in (("mode", _MODES), ("backend", _BACKENDS)):
        argument = keyword(reference.call, name)
        text = literal(source, argument.value) if argument is not None else None
        if text is not None and text.num_fields == 0 and text.body not in known:
            yield _asked(source, argument, f"`{name}='{text.body}'` is not among the NPU's {name}s.")
    options = keyword(reference.call, "options")
    if options is not None and isinstance(options.value, cst.Dict):
        for element in options.value.elements:
            key = literal(source, element.key) if isinstance(element, cst.DictElement) else None
            if key is not None and (key.body.startswith(("triton.", "cuda.")) or "max_autotune" in key.body):
                yield _asked(source, element, f"Option '{key.body}' of torch.compile is CUDA's.")


def _asked(source: Source, node: cst.CSTNode | None, message: str) -> Proposal:
    assert node is not None
    return Proposal(
        rule=RULE, span=source.span(node), severity=Severity.WARNING, message=message,
        action="Use the default, or mode='reduce-overhead' with the inductor back end.",
    )  # fmt: skip
