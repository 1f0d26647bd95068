"""## What it does
Finds options that choose a CUDA library or a CUDA feature without importing it: `attn_implementation=
'flash_attention_2'`, `load_in_8bit=True`, `optim='adamw_bnb_8bit'`, `tf32=True`, `fused=True` of an optimizer,
`enable_xformers_memory_efficient_attention()`, wherever they stand: in calls, dictionaries, defaults of options.

## Why it matters
The program imports no CUDA library itself, yet it fails, or falls back silently, where the framework does.

## Example
```python
model = AutoModel.from_pretrained(name, attn_implementation='flash_attention_2', load_in_8bit=True)
```

## Use instead
```python
model = AutoModel.from_pretrained(name, attn_implementation='sdpa', dtype=torch.bfloat16)
```

## Fix safety
No fix: another value may change results or memory.

## References
- https://huggingface.co/docs/transformers/main/en/main_classes/trainer
- Ascend/op-plugin `op_plugin_functions.yaml` (`_fused_adamw_`, `_fused_sgd_`)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.devices import callee_name, target_names
from jumar.convert.syntax.literals import literals
from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM133",
    name="library-switch",
    summary="An option chooses a CUDA library or feature.",
    severity=Severity.WARNING,
    doc=__doc__,
)


_BNB = "It is bitsandbytes'; use 'adamw_torch', whose states are float32."
_WORDS: dict[str, tuple[Severity, str]] = {
    "flash_attention_2": (
        Severity.WARNING,
        "Use 'sdpa', or a transformers release whose NPU integration serves this value (npu_fusion_attention).",
    ),
    "flash_attention_3": (Severity.WARNING, "Use 'sdpa': its kernels are Hopper's."),
    "adamw_apex_fused": (Severity.WARNING, "It is apex's; use 'adamw_torch'."),
    "adamw_torch_npu_fused": (Severity.INFO, "It is the NPU's own; nothing to do."),
    "adamw_torch_fused": (Severity.INFO, "torch_npu has this kernel (aten::_fused_adamw_); nothing to do."),
    "xformers": (Severity.ADVICE, "Use PyTorch's scaled_dot_product_attention."),
    "flashattention2": (Severity.ADVICE, "Use PyTorch's scaled_dot_product_attention."),
}
_BNB_WORD = re.compile(
    r"(paged_)?(adamw?|lion|ademamix)_(8|32)bit|(paged_)?(adamw?|lion|rmsprop|ademamix)_bnb(_8bit)?|rmsprop_bnb_32bit"
)
_OPTIMIZERS = re.compile(r"(^|\.)(Adam|AdamW|SGD|Adagrad|NAdam|RAdam)$")

_FLAGS: dict[str, tuple[Severity, str]] = {
    "load_in_8bit": (Severity.WARNING, "bitsandbytes has no NPU back end: load in bfloat16."),
    "load_in_4bit": (Severity.WARNING, "bitsandbytes has no NPU back end: load in bfloat16."),
    "use_flash_attention_2": (Severity.WARNING, "Pass attn_implementation='sdpa'."),
    "use_flash_attention": (Severity.ADVICE, "Check that it chooses scaled_dot_product_attention on an NPU."),
    "use_flash_attn": (Severity.ADVICE, "Check that it chooses scaled_dot_product_attention on an NPU."),
    "use_xformers": (Severity.ADVICE, "Use PyTorch's scaled_dot_product_attention."),
    "use_memory_efficient_attention_xformers": (Severity.ADVICE, "Use PyTorch's scaled_dot_product_attention."),
    "enable_xformers_memory_efficient_attention": (Severity.ADVICE, "Leave it off; diffusers then uses PyTorch's."),
    "tf32": (Severity.WARNING, "transformers refuses tf32 without an Ampere GPU; use torch.npu.matmul.allow_hf32."),
    "use_nvfuser": (Severity.ADVICE, "There is no such fuser on an NPU."),
    "replace_with_kernel_inject": (Severity.ADVICE, "Pass False: part of DeepSpeed's kernels have no NPU build."),
    "with_cuda": (Severity.ADVICE, "It asks for a CUDA build."),
}
_CONFIG = "BitsAndBytesConfig"
_METHODS: dict[str, str] = {
    "enable_xformers_memory_efficient_attention": "Leave it out; diffusers then uses scaled_dot_product_attention.",
    "set_use_memory_efficient_attention_xformers": "Pass False; diffusers then uses scaled_dot_product_attention.",
}


def find(context: Context) -> Iterator[Proposal]:
    """Report words, flags and methods that choose a CUDA library."""
    yield from _words(context)
    yield from _flags(context)
    yield from _configs(context)
    yield from _methods(context)


def _words(context: Context) -> Iterator[Proposal]:
    source = context.source
    for text in literals(source):
        if text.num_fields:
            continue
        severity, hint = _WORDS.get(text.body, (Severity.WARNING, _BNB if _BNB_WORD.fullmatch(text.body) else ""))
        if not hint or not _chooses(source, text.node) or context.covered(source.span(text.node)):
            continue
        yield Proposal(
            rule=RULE, span=source.span(text.node), severity=severity, confidence="likely", action=hint,
            message=f"'{text.body}' chooses code that CUDA brings.",
        )  # fmt: skip


def _chooses(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether a literal may be an option's value: not a module's name asked for, not compared with."""
    parent = source.parent(node)
    if isinstance(parent, cst.Arg) and isinstance(call := source.parent(parent), cst.Call):
        return callee_name(call) not in ("import_module", "find_spec", "__import__", "version", "is_package_available")
    return not isinstance(parent, (cst.Comparison, cst.ComparisonTarget))


def _flags(context: Context) -> Iterator[Proposal]:
    source = context.source
    for argument in source.nodes(cst.Arg):
        if argument.keyword is None or not _may_be_on(argument.value):
            continue
        call = source.parent(argument)
        if not (isinstance(call, cst.Call) and callee_name(call) == _CONFIG):
            yield from _flag(context, argument, argument.keyword.value, argument.value, call)
    for element in source.nodes(cst.DictElement):
        if isinstance(element.key, cst.SimpleString) and is_named(element.value, "True"):
            yield from _flag(context, element, element.key.raw_value, element.value, None)
    for assign in source.nodes(cst.Assign):
        key = list(target_names(source, assign)) if isinstance(assign.targets[0].target, cst.Subscript) else []
        if key and is_named(assign.value, "True"):
            yield from _flag(context, assign, key[0], assign.value, None)


def _may_be_on(node: cst.BaseExpression) -> bool:
    """Tell whether a value is True or computed; a parameter passed on under its own name is its caller's matter."""
    if isinstance(node, cst.Name):
        return node.value == "True"
    return isinstance(node, (cst.Comparison, cst.BooleanOperation, cst.IfExp, cst.Attribute, cst.Subscript))


def _flag(
    context: Context, node: cst.CSTNode, name: str, value: cst.BaseExpression, call: cst.CSTNode | None
) -> Iterator[Proposal]:
    source = context.source
    certain = is_named(value, "True")
    found = _FLAGS.get(name)
    if name == "fused" and isinstance(call, cst.Call) and _OPTIMIZERS.search(source.qualified(call.func) or ""):
        found = _fused(source.qualified(call.func) or "")
    if found is None:
        return
    yield Proposal(
        rule=RULE, span=source.span(node), action=found[1],
        severity=found[0] if certain else min(found[0], Severity.ADVICE),
        confidence="likely" if certain else "possible",
        message=f"`{name}=True` asks for code that CUDA brings."
        if certain
        else f"`{name}` asks for code that CUDA brings where it is on.",
    )  # fmt: skip


def _fused(optimizer: str) -> tuple[Severity, str]:
    if optimizer.endswith((".AdamW", ".SGD")):
        return Severity.INFO, "torch_npu has the fused kernel of AdamW and SGD (aten::_fused_adamw_, _fused_sgd_)."
    return Severity.WARNING, "torch_npu has no such fused kernel: leave the option out, or use NpuFused optimizers."


def _configs(context: Context) -> Iterator[Proposal]:
    """Report quantisation by bitsandbytes that transformers or diffusers is asked for."""
    source = context.source
    for reference in source.references:
        if reference.call is not None and reference.name.rpartition(".")[2] == _CONFIG:
            yield Proposal(
                rule=RULE, span=source.span(reference.node),
                message=f"`{_CONFIG}` quantises weights with bitsandbytes, whose kernels are CUDA.",
                action="Leave quantization_config out and load in bfloat16.",
            )  # fmt: skip


def _methods(context: Context) -> Iterator[Proposal]:
    source = context.source
    for node in source.methods:
        hint = _METHODS.get(node.attr.value)
        if hint is not None and source.called(node) is not None:
            yield Proposal(
                rule=RULE, span=source.span(node.attr), severity=Severity.WARNING, action=hint,
                message=f"`.{node.attr.value}()` needs xformers, whose kernels are CUDA.",
            )  # fmt: skip
