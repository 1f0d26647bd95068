"""CUDA packages in commands that install (`pip install torch==2.1.0+cu118`; JM125)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jumar.migrate.edits import Proposal, Replacement
from jumar.migrate.files.packages import TORCH_PACKAGES, cuda_index, cuda_tag, judge_package
from jumar.migrate.files.shell.scope import Scope
from jumar.migrate.files.shell.words import Word
from jumar.migrate.rules.files.cuda_requirement import RULE

_INSTALLERS = frozenset({"pip", "pip3", "conda", "mamba", "micromamba", "uv", "poetry", "apt", "apt-get", "yum", "dnf"})
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,-]*\])?")


def check(scope: Scope) -> Iterator[Proposal]:
    """Take CUDA's tag and index off PyTorch's packages, and report the packages that need CUDA."""
    for command in scope.script.commands:
        words = command.arguments
        texts = [word.text for word in words]
        if not any(text in ("install", "add", "create") for text in texts) or not _installs(texts):
            continue
        for word in words:
            yield from _word(scope, word)


def _installs(texts: list[str]) -> bool:
    return any(text.rpartition("/")[2] in _INSTALLERS or re.fullmatch(r"pip3?[\d.]*", text) for text in texts[:6])


def _word(scope: Scope, word: Word) -> Iterator[Proposal]:
    name = _NAME.match(word.text)
    tag, index = cuda_tag(word.text), cuda_index(word.text)
    if index is not None:
        yield _change(scope, word, index.span(2), "cpu", f"PyTorch's index {index.group(2)} holds builds for CUDA.")
    elif name is not None and tag is not None and name.group().lower() in TORCH_PACKAGES:
        message = f"{word.text} is a build for CUDA, which does not load torch_npu."
        yield _change(scope, word, tag.span(), "", message, "Install torch_npu of the same version beside it.")
    elif name is not None:
        verdict = judge_package(name.group())
        if verdict is not None:
            yield Proposal(
                rule=RULE, span=(word.start, word.end), message=verdict.message, action=verdict.action,
                severity=verdict.severity,
            )  # fmt: skip


def _change(scope: Scope, word: Word, where: tuple[int, int], new: str, message: str, action: str = "") -> Proposal:
    span = word.span_of(*where)
    edits = (Replacement(*span, new),) if span is not None and scope.is_npu() else ()
    return Proposal(rule=RULE, span=(word.start, word.end), message=message, replacements=edits, action=action)
