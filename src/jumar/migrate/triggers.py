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

from jumar.migrate.facts.project import ProjectFacts
from jumar.migrate.options import ConvertOptions

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
    """The triggers of the rules that take part in a conversion. Each distinct word is looked for once a file."""

    def __init__(self, modules: Iterable[ModuleType], options: ConvertOptions) -> None:
        self._words: dict[str, frozenset[bytes]] = {}
        self._patterns: dict[str, re.Pattern[bytes]] = {}
        self._always = False
        for module in modules:
            trigger: Trigger | None = getattr(module, "TRIGGER", None)
            if trigger is None or not options.checks(module.RULE):
                continue
            asked = trigger(options) if callable(trigger) else trigger
            if asked is None:
                self._always = True
            elif isinstance(asked, tuple):
                self._words[module.RULE.code] = frozenset(asked)
            else:
                self._patterns[module.RULE.code] = asked
        self._all_words = tuple(dict.fromkeys(word for words in self._words.values() for word in sorted(words)))
        self._all_patterns = tuple(dict.fromkeys(self._patterns.values()))

    def may_concern(self, data: bytes) -> bool:
        """Tell whether any rule may say something of a file because of its own words."""
        lowered = data.lower()
        return (
            speaks_of_cuda(lowered)
            or self._always
            or any(word in lowered for word in self._all_words)
            or any(pattern.search(lowered) for pattern in self._all_patterns)
        )

    def silent(self, data: bytes, path: str, project: ProjectFacts) -> frozenset[str] | None:
        """Return the codes of rules that cannot say anything of a file, or None when no rule can."""
        lowered = data.lower()
        words = {word for word in self._all_words if word in lowered}
        patterns = {pattern for pattern in self._all_patterns if pattern.search(lowered)}
        if not (words or patterns or self._always or speaks_of_cuda(lowered) or project.concerns(path, data)):
            return None
        by_words = {code for code, asked in self._words.items() if asked.isdisjoint(words)}
        return frozenset(by_words | {code for code, asked in self._patterns.items() if asked not in patterns})
