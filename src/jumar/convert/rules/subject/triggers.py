"""`Triggers`: tells from the bytes of a file which rules it may concern, before it is parsed.

Most files of a repository have nothing for any rule, and parsing costs fifty times as much as a look at the bytes.
A file is looked at when it holds a word of CUDA, or the trigger of a rule that takes part (`rules.order`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from jumar.convert.model.project import ProjectFacts
from jumar.convert.model.step import Step, Words

CUDA_WORDS: Words = (
    b"cuda", b"nccl", b"nvidia", b"nvml", b"apex", b"amp_c", b"flash_attn", b"flash_attention", b"bitsandbytes",
    b"xformers", b"triton", b"cupy", b"tensorrt", b"transformer_engine", b"dataparallel", b"gradscaler", b"cudnn",
    b"cublas", b"8bit", b"torch_scatter", b"spconv", b"mamba_ssm", b"causal_conv1d", b"autocast_enabled",
    b"autocast_gpu",
)  # fmt: skip
"""Rules look at a file that holds one of these."""

_LOAD = re.compile(rb"\bload\b.{0,8}\(|import\s+load\b")
_EXTENSIONS = re.compile(
    rb"cpp_extension|load_library|\.cu|cuda|\b_c\b|\b\w*_ext\b|torch\.ops\.|autograd[^\n]*\bfunction\b"
    rb"|\bimport[^\n]*\b_[a-z]\w*|\bfrom\s+[\w.]*\._[a-z]"
)
"""What may be a compiled module, or its use."""
_TORCH_MODULE = re.compile(rb"\b(?:from|import)[^\n]*\b_(?:c|ext)\b")
_DALI = re.compile(rb"dali\b")


def speaks_of_cuda(lowered: bytes) -> bool:
    """Tell whether the lower-case bytes of a file hold a word of CUDA, or `torch.load`."""
    if any(word in lowered for word in CUDA_WORDS):
        return True
    if b"torch" in lowered and b"load" in lowered and _LOAD.search(lowered):
        return True
    if b".cu" in lowered or (b"torch" in lowered and _EXTENSIONS.search(lowered)):
        return True
    if _TORCH_MODULE.search(lowered):
        return True
    return b"dali" in lowered and _DALI.search(lowered) is not None


class Triggers:
    """The triggers of the rules that take part in a conversion. Each distinct word is looked for once a file."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._words: dict[str, frozenset[bytes]] = {}
        self._patterns: dict[str, re.Pattern[bytes]] = {}
        for step in steps:
            asked = step.trigger() if callable(step.trigger) else step.trigger
            if isinstance(asked, tuple):
                self._words[step.code] = frozenset(asked)
            elif asked is not None:
                self._patterns[step.code] = asked
        self._all_words = tuple(dict.fromkeys(word for words in self._words.values() for word in sorted(words)))
        self._all_patterns = tuple(dict.fromkeys(self._patterns.values()))

    def may_concern(self, data: bytes) -> bool:
        """Tell whether a word of a file makes a rule look at it."""
        lowered = data.lower()
        return (
            speaks_of_cuda(lowered)
            or any(word in lowered for word in self._all_words)
            or any(pattern.search(lowered) for pattern in self._all_patterns)
        )

    def silent(self, data: bytes, path: str, project: ProjectFacts) -> frozenset[str] | None:
        """Return the codes of the rules that do not concern a file, None when no rule does."""
        lowered = data.lower()
        words = {word for word in self._all_words if word in lowered}
        patterns = {pattern for pattern in self._all_patterns if pattern.search(lowered)}
        if not (words or patterns or speaks_of_cuda(lowered) or project.concerns(path, data)):
            return None
        by_words = {code for code, asked in self._words.items() if asked.isdisjoint(words)}
        return frozenset(by_words | {code for code, asked in self._patterns.items() if asked not in patterns})
