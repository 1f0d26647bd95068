"""Commands in the code blocks of documents. The finding shows the command for the NPU; the file stays (JM127)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from jumar.base.findings import Severity
from jumar.convert.files.draft.drafting import TRIGGER, convert_with
from jumar.convert.files.draft.kind import FileKind, is_text
from jumar.convert.files.shell.convert import shell_proposals
from jumar.convert.model.edits import Proposal
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Outcome
from jumar.convert.model.project import ProjectFacts
from jumar.convert.rules.files.documented_cuda_command import RULE

_FENCE = re.compile(
    r"^(?P<indent>[ \t>]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n]*\n(?P<body>.*?)^(?P=indent)(?P=fence)",
    re.MULTILINE | re.DOTALL,
)
_RST_BLOCK = re.compile(
    r"^(?P<indent>[ \t]*)(?:\.\.[ \t]+(?:code|code-block|sourcecode)::[ \t]*(?P<language>\w*)|[^\r\n]*::)[ \t]*\r?\n"
    r"(?P<body>(?:[ \t]*\r?\n|(?P=indent)[ \t]+[^\n]*(?:\n|\Z))+)",
    re.MULTILINE,
)
_SHELL_LANGUAGES = frozenset({"", "bash", "sh", "shell", "console", "shell-session", "zsh", "text", "none", "cmd"})
_COMMAND = re.compile(
    r"^[ \t>]*(?:[$%#][ \t]+|>>>?[ \t]+)?(?=[ \t]*(?:[A-Z_][A-Z0-9_]*=|export |python|torchrun|deepspeed"
    r"|accelerate |bash |sh |nvidia-smi|docker |pip|conda|srun|sbatch|mpirun|CUDA|\./|litgpt|fairseq|sudo |env ))"
    r"((?:[^\n\\]|\\\r?\n|\\.)*)",
    re.MULTILINE,
)


def _is_document(path: PurePosixPath, data: bytes) -> bool:
    return path.suffix.lower() in (".md", ".markdown", ".mdx", ".rst") and is_text(data)


def _convert(data: bytes, path: str, options: ConvertOptions, project: ProjectFacts) -> Outcome:
    pattern = _RST_BLOCK if PurePosixPath(path).suffix.lower() == ".rst" else _FENCE

    def propose(text: str, options: ConvertOptions, project: ProjectFacts) -> Iterator[Proposal]:
        for block in pattern.finditer(text):
            if (block["language"] or "").lower() in _SHELL_LANGUAGES and TRIGGER.search(block["body"]):
                yield from _block(text, block.span("body"), options, project)

    return convert_with(data, path, options, project, propose, is_run=False)


def _block(text: str, span: tuple[int, int], options: ConvertOptions, project: ProjectFacts) -> Iterator[Proposal]:
    for command in _COMMAND.finditer(text, *span):
        for proposal in shell_proposals(text, options, project, *command.span(1)):
            if isinstance(proposal, Proposal) and _tells(proposal):
                yield replace(
                    proposal, rule=RULE, safety="display-only", severity=Severity.INFO,
                    message=f"A documented command: {proposal.message}",
                )  # fmt: skip


def _tells(proposal: Proposal) -> bool:
    """Tell whether a proposal is about what readers would do wrong, not about a name or a missing effect."""
    return bool(proposal.replacements) or (proposal.severity or proposal.rule.severity) >= Severity.WARNING


DOCUMENT: FileKind = FileKind(name="document", matches=_is_document, convert=_convert)
