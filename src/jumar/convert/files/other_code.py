"""Cython sources, templates, build files and other scripts: read as text, what may mean CUDA is named (JM197)."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from jumar.convert.files.draft.drafting import convert_with
from jumar.convert.files.draft.kind import FileKind, is_text
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Outcome
from jumar.convert.model.project import ProjectFacts

_NAMES = re.compile(
    r".*\.(pyx|pxd|pxi|ipy|xsh|sage|mojo|coconut|jinja2?|j2|tmpl|tpl|template|mako|in|cmake"
    r"|gin|jsonnet|libsonnet|bat|cmd|ps1|groovy)|CMakeLists\.txt|SConstruct|Jenkinsfile",
    re.IGNORECASE,
)


def _matches(path: PurePosixPath, data: bytes) -> bool:
    return _NAMES.fullmatch(path.name) is not None and b"cuda" in data.lower() and is_text(data)


def _convert(data: bytes, path: str, options: ConvertOptions, project: ProjectFacts) -> Outcome:
    return convert_with(data, path, options, project, lambda _text, _options, _project: ())


OTHER_CODE: FileKind = FileKind(name="other code", matches=_matches, convert=_convert)
