"""Decides what replaces a device or back-end word that stands for a key of a configuration or an option of a
command.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from jumar.base.findings import Safety, Severity
from jumar.base.rules import Rule
from jumar.convert.facts.use import plain_key
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.project import ProjectFacts
from jumar.convert.model.words import names_device, names_kernel

_DEVICE = re.compile(r"(cuda|gpu)(:\d+)?", re.IGNORECASE)
_DEVICES = re.compile(r"cuda:\d+(\s*,\s*cuda:\d+)+")
_BACKEND = re.compile(r"nccl", re.IGNORECASE)
_COMPOUND = re.compile(r"(\w+:\w+,)*cuda:nccl(,\w+:\w+)*")
_BACKEND_KEY = re.compile(r"backend|dist|comm|ddp|(^|_)pg($|_)|process_?group|nccl", re.IGNORECASE)
_ACCELERATOR = "accelerator"

TRUE = frozenset({"true", "yes", "on", "1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is said about one value: its replacement (None: it is left), and the words of the finding."""

    message: str
    new: str | None = None
    safety: Safety = "safe"
    severity: Severity | None = None
    action: str = ""
    confidence: str = "certain"


def verdict_proposal(rule: Rule, span: tuple[int, int], verdict: Verdict, place: tuple[int, int] | None) -> Proposal:
    """Return a verdict as a proposal about `span`; the new word goes to `place` (None: it cannot be written)."""
    return Proposal(
        rule=rule,
        span=span,
        message=verdict.message,
        replacements=() if verdict.new is None or place is None else (Replacement(*place, verdict.new),),
        safety=verdict.safety,
        severity=verdict.severity,
        action=verdict.action,
        confidence=verdict.confidence,
    )


def is_device_value(value: str) -> bool:
    """Tell whether a value is a CUDA device or NCCL, by itself or in a list."""
    return any(pattern.fullmatch(value) for pattern in (_DEVICE, _DEVICES, _BACKEND, _COMPOUND))


def judge_value(key: str, value: str, options: ConvertOptions, project: ProjectFacts) -> Verdict | None:
    """Judge the value given to a key or option; None where it is no CUDA device and no NCCL."""
    if not is_device_value(value):
        return None
    name = plain_key(key)
    if _BACKEND.fullmatch(value) or _COMPOUND.fullmatch(value):
        return _backend(name, value, options, project)
    return _device(name, value, options, project)


def _changes(name: str, project: ProjectFacts) -> bool | None:
    found = project.changes(name)
    return found if found is not None else project.changes(name.replace("_", "-"))


def _kept(name: str, value: str) -> Verdict:
    return Verdict(
        message=f"`{name}` is given {value!r} and keeps its words, because a program that reads it keeps them.",
        severity=Severity.WARNING,
        action=f"Change the program and every value of {name} together.",
    )


def _backend(name: str, value: str, options: ConvertOptions, project: ProjectFacts) -> Verdict:
    changes = _changes(name, project)
    if changes is False:
        return _kept(name, value)
    if options.target == "agnostic":
        return Verdict(
            message=f"`{name}` is given {value!r}, the collectives of CUDA only.",
            severity=Severity.ADVICE,
            action="Leave it out where the program then picks the back end of its device; on an NPU give hccl.",
        )
    if not (changes or _BACKEND_KEY.search(name)):
        return Verdict(
            message=f"`{name}` is given {value!r}, which may be the collectives' back end.",
            severity=Severity.WARNING,
            action="Where it is, give hccl.",
            confidence="possible",
        )
    new = value.replace("cuda:nccl", "npu:hccl") if ":" in value else _cased(value, "hccl")
    return Verdict(message=f"`{name}` is given {value!r}; the NPU's collectives are HCCL.", new=new)


def _device(name: str, value: str, options: ConvertOptions, project: ProjectFacts) -> Verdict | None:
    changes = _changes(name, project)
    if changes is False:
        return _kept(name, value)
    if value.lower().startswith("gpu") and not changes and not names_device(name):
        return None  # a keyword, a label, a kind of machine
    if options.target == "agnostic":
        return _agnostic_device(name, value)
    if value.lower().startswith("gpu") and not changes:
        return Verdict(
            message=f"`{name}` is given {value!r}, which libraries such as Lightning read as CUDA.",
            severity=Severity.WARNING,
            action="Give the word the library has for NPUs (accelerator: npu needs its NPU plugin), or the device.",
            confidence="likely",
        )
    if not changes and (names_kernel(name) or not names_device(name)):
        return Verdict(
            message=f"`{name}` is given {value!r}; it is not clear that this is the device to run on.",
            severity=Severity.WARNING,
            action="Where it is, give npu; where it picks a CUDA-only implementation, pick another.",
            confidence="possible",
        )
    new = re.sub("cuda|gpu", lambda match: _cased(match.group(), "npu"), value, flags=re.IGNORECASE)
    return Verdict(message=f"`{name}` is given the device {value!r}.", new=new)


def _agnostic_device(name: str, value: str) -> Verdict:
    if name == _ACCELERATOR and ":" not in value:
        return Verdict(message=f"`{name}` is given {value!r}; auto takes the accelerator that is there.", new="auto")
    return Verdict(
        message=f"`{name}` is given {value!r}, so the program runs on CUDA only.",
        severity=Severity.ADVICE,
        action="Leave it out where the program picks the device, or give each machine's own word.",
        confidence="likely",
    )


def _cased(old: str, new: str) -> str:
    """Return `new` in upper, title or lower case, as `old` is."""
    if old.isupper():
        return new.upper()
    return new.title() if old.istitle() else new


_OPTIMIZER_KEY = re.compile(r"^(optim|optimizer|optimizer_type|optimizer_name|opt|type|name|_target_)$")
_ATTENTION_KEY = re.compile(r"attn|attention", re.IGNORECASE)
_OPTIMIZERS = {
    "adamw_apex_fused": "adamw_torch",
    "adamw_bnb_8bit": "adamw_torch",
    "adamw_8bit": "adamw_torch",
    "paged_adamw": "adamw_torch",
    "paged_adamw_8bit": "adamw_torch",
    "paged_adamw_32bit": "adamw_torch",
    "adamw_torch_fused": "adamw_torch",
    "lion_8bit": None,
    "lion_32bit": None,
    "paged_lion_8bit": None,
    "paged_lion_32bit": None,
    "fusedadam": None,
    "fused_adam": None,
    "fused_lamb": None,
    "fusedlamb": None,
    "onebitadam": None,
    "bitsandbytes.optim.adamw8bit": None,
}
"""Optimizers with CUDA code -> transformers' own word for the plain one, None where the reader is not transformers."""
_FLAGS = {
    "load_in_8bit": "bitsandbytes' 8-bit weights need CUDA",
    "load_in_4bit": "bitsandbytes' 4-bit weights need CUDA",
    "load_8bit": "bitsandbytes' 8-bit weights need CUDA",
    "load_4bit": "bitsandbytes' 4-bit weights need CUDA",
    "use_8bit_adam": "bitsandbytes' 8-bit Adam needs CUDA",
    "tf32": "TF32 is a mode of NVIDIA's GPUs; transformers refuses it elsewhere",
    "allow_tf32": "TF32 is a mode of NVIDIA's GPUs",
    "fp8": "FP8 needs Transformer Engine",
    "use_flash_attn": "flash_attn needs CUDA",
    "use_flash_attention": "flash_attn needs CUDA",
    "use_flash_attention_2": "flash_attn needs CUDA",
    "flash_attn": "flash_attn needs CUDA",
    "enable_xformers_memory_efficient_attention": "xformers needs CUDA",
    "use_xformers": "xformers needs CUDA",
    "cudnn_benchmark": "cuDNN's flags have no effect on an NPU",
    "cudnn_deterministic": "cuDNN's flags have no effect on an NPU",
    "cudnn_enabled": "cuDNN's flags have no effect on an NPU",
    "use_cuda_graph": "CUDA graphs need CUDA; torch.npu has NPUGraph",
    "cuda_graph": "CUDA graphs need CUDA; torch.npu has NPUGraph",
}
_NUMERIC_MODES = frozenset({"tf32", "allow_tf32"})


def judge_switch(key: str, value: str | None) -> Verdict | None:
    """Judge a key that may choose a CUDA-only implementation; `value` None is an option without one."""
    name = plain_key(key)
    if name in _FLAGS:
        return _flag(name, value)
    if value is None:
        return None
    if _ATTENTION_KEY.search(name) and value.lower() in ("flash_attention_2", "flash_attention_3", "xformers"):
        return Verdict(
            message=f"`{name}` chooses {value!r}, which has CUDA code of its own.",
            new="sdpa" if value.startswith("flash_attention") else None,
            safety="unsafe",
            action="Use sdpa: PyTorch's scaled_dot_product_attention has an NPU kernel.",
        )
    if _OPTIMIZER_KEY.match(name) and value.lower() in _OPTIMIZERS:
        return Verdict(
            message=f"`{name}` chooses the optimizer {value!r}, which has CUDA code of its own.",
            new=_OPTIMIZERS[value.lower()] if name in ("optim", "optimizer") else None,
            safety="unsafe",
            action="Use the plain optimizer, transformers' adamw_torch_npu_fused, or torch_npu.optim.NpuFused*.",
        )
    return None


def _flag(name: str, value: str | None) -> Verdict | None:
    if value is not None and value.lower() not in TRUE and name not in ("flash_attn", "fp8"):
        return None
    if value is not None and value.lower() in ("false", "no", "off", "0", "null", "none", "~", ""):
        return None
    flag_off = {"true": "false", "True": "False", "1": "0", "yes": "no"}.get(value or "")
    return Verdict(
        message=f"`{name}` is on: {_FLAGS[name]}.",
        new=flag_off if name in _NUMERIC_MODES else None,
        safety="unsafe",
        severity=Severity.ADVICE if name.startswith("cudnn") else None,
        action="Turn it off for the NPU." if not name.startswith("cudnn") else "Nothing has to be done.",
    )


_CUDA_FLAG = re.compile(r"(^|_)cuda($|_)", re.IGNORECASE)
_COUNT = re.compile(r"[\d,\s-]+|all|auto|[$\ufffc{].*", re.DOTALL)
_RATE = re.compile(r"per_?gpu", re.IGNORECASE)
_GPU_NAME = re.compile(r"(^|_)(gpu|gpus|ngpu|ngpus)($|_)|^gpus?[a-z]*$", re.IGNORECASE)


def judge_name(key: str, value: str | None) -> Verdict | None:
    """Judge a key whose name, not its value, contains CUDA or GPUs (`use_cuda`, `num_gpus: 8`)."""
    name = plain_key(key)
    if _CUDA_FLAG.search(name) and "visible" not in name.lower():
        return Verdict(
            message=f"`{name}` is named after CUDA and was left, as what it does is the reader's to say.",
            severity=Severity.ADVICE,
            action="Check that a true value leads to the NPU in the program that reads it.",
            confidence="likely",
        )
    if _GPU_NAME.search(name) and not _RATE.search(name) and value is not None and _COUNT.fullmatch(value):
        return Verdict(
            message=f"`{name}` counts or chooses GPUs; NPUs have the same numbers, so it was left.",
            severity=Severity.INFO,
            action="Nothing has to be done, unless the program that reads it insists on CUDA.",
            confidence="likely",
        )
    return None
