"""Dockerfiles: base images (JM124), ENV and RUN as in shell scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from jumar.convert.files.containers.images import image_proposal, is_cuda_image
from jumar.convert.files.draft.drafting import Converted, convert_with
from jumar.convert.files.draft.environment import NAME
from jumar.convert.files.draft.kind import FileKind, is_text
from jumar.convert.files.shell import environment, tools
from jumar.convert.files.shell.convert import shell_proposals
from jumar.convert.files.shell.lexer import read_script
from jumar.convert.files.shell.scope import Scope
from jumar.convert.files.shell.words import Command, Script, Word
from jumar.convert.model.edits import Proposal
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Outcome
from jumar.convert.model.project import ProjectFacts

_INSTRUCTION = re.compile(
    r"^[ \t]*(?P<name>[A-Za-z]+)[ \t]+"
    r"(?P<body>(?:[^\r\n\\]|\\[ \t]*\r?\n(?:[ \t]*#[^\r\n]*\r?\n)*|\\(?![ \t]*\r?\n))+)",
    re.MULTILINE,
)
_COMMENT_LINE = re.compile(r"^[ \t]*#[^\r\n]*", re.MULTILINE)
_IMAGE = re.compile(r"(?:--\S+\s+)*(\S+)")
_ARGUMENT = re.compile(r"[A-Za-z_]\w*=[\"']?([^\s\"']+)")
_OLD_FORM = re.compile(r"([A-Za-z_]\w*)[ \t]+([^\r\n]*?)[ \t]*$")
_HERE_DOCUMENT = re.compile(r"<<-?[ \t]*[\"']?(\w+)[\"']?")
_JSON_FORM = re.compile(r"\s*\[")


def _is_dockerfile(path: PurePosixPath, data: bytes) -> bool:
    name = path.name.lower()
    named = re.match(r"(docker|container)file", name) or path.suffix.lower() in (".dockerfile", ".containerfile")
    return bool(named) and path.suffix not in (".py", ".md") and is_text(data)


def _convert(data: bytes, path: str, options: ConvertOptions, project: ProjectFacts) -> Outcome:
    return convert_with(data, path, options, project, _proposals)


def _proposals(text: str, options: ConvertOptions, project: ProjectFacts) -> Iterator[Proposal | Converted]:
    at = 0
    while True:
        match = _INSTRUCTION.search(text, at)
        if match is None:
            return
        start, end = match.span("body")
        name = match["name"].upper()
        document = _HERE_DOCUMENT.search(text, start, end) if name == "RUN" else None
        if document is not None:
            closing = re.compile(rf"^\t*{re.escape(document.group(1))}\s*$", re.MULTILINE).search(text, end)
            start, end = end, closing.start() if closing is not None else len(text)
            yield from shell_proposals(text, options, project, start, end)
            at = end
            continue
        yield from _instruction(text, name, start, end, options, project)
        at = max(end, match.end())


def _instruction(
    text: str, name: str, start: int, end: int, options: ConvertOptions, project: ProjectFacts
) -> Iterator[Proposal | Converted]:
    if name == "FROM":
        image = _IMAGE.match(text, start, end)
        if image is not None and is_cuda_image(image.group(1)):
            yield image_proposal(image.span(1), image.group(1))
    elif name == "ARG":
        default = _ARGUMENT.match(text, start, end)
        if default is not None and re.search("[/:]", default.group(1)) and is_cuda_image(default.group(1)):
            yield image_proposal(default.span(1), default.group(1))
    elif name == "ENV":
        yield from _environment(text, start, end, options, project)
    elif name in ("RUN", "CMD", "ENTRYPOINT") and not _JSON_FORM.match(text, start, end):
        yield from shell_proposals(_without_comments(text, start, end), options, project, start, end)


def _without_comments(text: str, start: int, end: int) -> str:
    """Blank the comment lines in a continued instruction, which Docker takes out; every offset stays."""

    def blank(match: re.Match[str]) -> str:
        return " " * (len(match.group()) - 1) + "\\"

    if "#" not in text[start:end] or "\\" not in text[start:end]:
        return text
    first, newline, rest = text[start:end].partition("\n")
    return text[:start] + first + newline + _COMMENT_LINE.sub(blank, rest) + text[end:]


def _environment(text: str, start: int, end: int, options: ConvertOptions, project: ProjectFacts) -> Iterator[Proposal]:
    """Judge `ENV A=1 B=2` as an export; the old form `ENV A 1` sets one variable."""
    script = read_script(text, start, end)
    if script.commands and script.commands[0].words and script.commands[0].words[0].assigned is None:
        script = _old_form(text, start, end) or script
    scope = Scope(text, script, options, project)
    yield from environment.check(scope)
    yield from tools.check(scope)


def _old_form(text: str, start: int, end: int) -> Script | None:
    match = _OLD_FORM.match(text, start, end)
    if match is None or not NAME.fullmatch(match.group(1)):
        return None
    offsets = (*range(*match.span(1)), match.end(1), *range(*match.span(2)))
    word = Word(match.start(), match.end(), f"{match.group(1)}={match.group(2)}", offsets)
    return Script([Command([Word(start, start, "ENV", (start,) * 3), word])])


DOCKERFILE: FileKind = FileKind(name="Dockerfile", matches=_is_dockerfile, convert=_convert)
