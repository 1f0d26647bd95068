"""Which rules a file may concern, told by its bytes before it is parsed.

Most files of a repository have nothing for any rule, and parsing costs fifty times as much as a look
at the bytes. A rule's module may hold a `TRIGGER`: words (lower case) of which a file holds one where
the rule can say something, a compiled pattern for the lower-case bytes, or a function from options to
either (None: any file). A rule without one asks nothing more than that the file is looked at at all,
which the words of CUDA or the trigger of any other rule bring about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from types import ModuleType

from jumar.migrate.options import ConvertOptions
from jumar.migrate.project_facts import ProjectFacts

Words = tuple[bytes, ...]
Trigger = Words | re.Pattern[bytes] | Callable[[ConvertOptions], "Words | re.Pattern[bytes] | None"]

CUDA_WORDS: Words = (
    b"cuda", b"nccl", b"nvidia", b"nvml", b"apex", b"amp_c", b"flash_attn", b"flash_attention", b"bitsandbytes",
    b"xformers", b"triton", b"cupy", b"tensorrt", b"transformer_engine", b"dataparallel", b"gradscaler", b"cudnn",
    b"cublas", b"8bit", b"torch_scatter", b"spconv", b"mamba_ssm", b"causal_conv1d",
)  # fmt: skip
"""A file that holds one of these is looked at."""

_LOAD = re.compile(rb"\bload\b.{0,8}\(|import\s+load\b")
_DALI = re.compile(rb"dali\b")


def speaks_of_cuda(lowered: bytes) -> bool:
    """Tell whether the lower-case bytes of a file hold a word of CUDA, or `torch.load`."""
    if any(word in lowered for word in CUDA_WORDS):
        return True
    if b"torch" in lowered and b"load" in lowered and _LOAD.search(lowered):
        return True
    return b"dali" in lowered and _DALI.search(lowered) is not None


class Triggers:
    """The triggers of the rules that take part in a conversion, with what they ask for looked up once."""

    def __init__(self, modules: Iterable[ModuleType], options: ConvertOptions) -> None:
        self._by_code: dict[str, Words | re.Pattern[bytes] | None] = {}
        for module in modules:
            trigger: Trigger | None = getattr(module, "TRIGGER", None)
            if trigger is not None and options.checks(module.RULE):
                self._by_code[module.RULE.code] = trigger(options) if callable(trigger) else trigger

    def silent(self, data: bytes, path: str, project: ProjectFacts) -> frozenset[str] | None:
        """Return the codes of rules that cannot say anything of a file, or None when no rule can."""
        lowered = data.lower()
        silent = {code for code, trigger in self._by_code.items() if not _matches(trigger, lowered)}
        if len(silent) == len(self._by_code) and not speaks_of_cuda(lowered) and not project.concerns(path, data):
            return None
        return frozenset(silent)


def _matches(trigger: Words | re.Pattern[bytes] | None, lowered: bytes) -> bool:
    if trigger is None:
        return True
    if isinstance(trigger, tuple):
        return any(word in lowered for word in trigger)
    return trigger.search(lowered) is not None
