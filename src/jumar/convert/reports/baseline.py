"""The known uses of CUDA of a project: `jumar convert --check` fails on new ones only.

A use is told by its rule, its file and the text of its line, so that lines may move; equal lines of a
file are counted. The file holds one use a line, sorted, so that it is the same on every machine and
two branches merge like sources do.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jumar.base.errors import InputError
from jumar.base.findings import Finding, Severity
from jumar.convert.model.outcome import Outcome
from jumar.convert.model.text import SourceError, SourceText

_HEAD = "# jumar convert --check: known uses of CUDA (rule, file, count, line). Renew with --write-baseline.\n"
_OTHER_MATTERS = frozenset(
    {"JM107", "JM115", "JM128", "JM136", "JM137", "JM138", "JM140", "JM141", "JM143", "JM196"}
    | {"JM640", "JM659", "JM660", "JM661", "JM662", "JM663", "JM665", "JM666", "JM668"}
    | {f"JM{number}" for number in range(150, 190)}
)
"""Rules whose findings are no use of CUDA: imports that edits need, unreadable files, compilers, formats and dtypes,
idle comments, the manual steps, the change to several devices, and proofs."""
_MOST_TEXT = 120
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """One use of CUDA, known by its line's text and not by the line's number."""

    path: str
    """Relative to the folder of the baseline, with forward slashes."""
    code: str
    line: str
    """The line's text with its white space made single blanks; of a long one its start and a digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a check says: uses that are new, and known ones that are gone; with how many of each."""

    new: Mapping[Use, int]
    gone: Mapping[Use, int]
    num_known: int
    findings: tuple[Finding, ...] = ()
    """The findings of the new uses. Where only some of several equal lines are new, the last ones."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Known uses with their counts."""

    uses: Mapping[Use, int] = field(default_factory=dict)

    @classmethod
    def of(cls, places: Iterable[tuple[Use, Finding]]) -> Baseline:
        """Count the uses of `uses_of`."""
        return cls(Counter(use for use, _ in places))

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read a file that `text` wrote. Raises InputError, with the line, when it is missing or something else."""
        try:
            text = path.read_text("utf-8")
        except OSError as error:
            raise InputError(
                f'"{path}" must be a baseline, and cannot be read: {error.strerror}. Make it with --write-baseline.'
            ) from error
        except UnicodeDecodeError as error:
            raise InputError(
                f'"{path}" must be a baseline, and is no UTF-8 text; make it with --write-baseline.'
            ) from error
        return cls.parse(text, path)

    @classmethod
    def parse(cls, text: str, path: Path) -> Baseline:
        """Read the text of the file `path`. Raises InputError, with the line, where it is no baseline."""
        uses: dict[Use, int] = {}
        for number, line in enumerate(text.split("\n"), 1):
            if line and not line.startswith("#"):
                use, count = _parse(line, path, number)
                uses[use] = max(count, uses.get(use, 0))  # two branches may have added the same
        return cls(uses)

    def text(self) -> str:
        """Return the file: the same uses always give the same text."""
        lines = [f"{use.code}\t{_escaped(use.path)}\t{self.uses[use]}\t{use.line}\n" for use in sorted(self.uses)]
        return _HEAD + "".join(lines)

    def within(self, folder: str) -> Baseline:
        """Return the uses in a folder, or a file, that is given relative to the baseline's own folder."""
        if folder in ("", "."):
            return self
        return Baseline(
            {use: count for use, count in self.uses.items() if use.path == folder or use.path.startswith(f"{folder}/")}
        )


def compare(known: Baseline, places: Iterable[tuple[Use, Finding]]) -> Comparison:
    """Compare what is there with what is known.

    A use whose file is gone and that is there in another file, under the same rule and with the same
    text, has moved: it is neither new nor gone.
    """
    found: dict[Use, list[Finding]] = {}
    for use, finding in places:
        found.setdefault(use, []).append(finding)
    new = {use: len(items) - known.uses.get(use, 0) for use, items in found.items()}
    new = {use: number for use, number in new.items() if number > 0}
    gone = {use: count - len(found.get(use, ())) for use, count in known.uses.items()}
    gone = {use: number for use, number in gone.items() if number > 0}
    _settle_moved(new, gone, {use.path for use in found})
    findings = tuple(finding for use in sorted(new) for finding in found[use][-new[use] :])
    return Comparison(new=new, gone=gone, num_known=sum(known.uses.values()), findings=findings)


def _settle_moved(new: dict[Use, int], gone: dict[Use, int], paths: set[str]) -> None:
    left: dict[tuple[str, str], list[Use]] = {}
    for use in sorted(gone):
        if use.path not in paths:
            left.setdefault((use.code, use.line), []).append(use)
    for use in sorted(new):
        for old in left.get((use.code, use.line), ()):
            moved = min(new.get(use, 0), gone.get(old, 0))
            for counts, key in ((new, use), (gone, old)):
                if moved and counts[key] == moved:
                    del counts[key]
                elif moved:
                    counts[key] -= moved


def uses_of(files: Iterable[Outcome], root: Path, base: Path) -> Iterator[tuple[Use, Finding]]:
    """Yield every use of CUDA in converted files under `root`, with paths relative to the folder `base`.

    A finding is a use when it was converted, or asks for something (advice and above).
    """
    prefix = Path(os.path.relpath(root.resolve(), base.resolve())).as_posix()
    for outcome in files:
        wanted = [finding for finding in outcome.findings if _is_use(finding)]
        lines = lines_of(outcome.before) if wanted else []
        for finding in wanted:
            at = finding.where.line or 0
            line = lines[at - 1] if 0 < at <= len(lines) else ""
            path = outcome.path if prefix == "." else f"{prefix}/{outcome.path}"
            yield Use(path=path, code=finding.code, line=_normalised(line)), finding


def _is_use(finding: Finding) -> bool:
    if finding.code in _OTHER_MATTERS:
        return False
    return bool(finding.evidence.get("applied")) or finding.severity >= Severity.ADVICE


def lines_of(data: bytes) -> list[str]:
    """Return the lines of a file as findings count them; bytes that are no text are replaced."""
    try:
        text = SourceText.decode(data).text
    except SourceError:
        text = data.decode("utf-8", "replace")
    return _LINE_END.split(text)


def _normalised(line: str) -> str:
    text = " ".join(line.encode("utf-8", "backslashreplace").decode().split())
    if len(text) <= _MOST_TEXT:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{text[: _MOST_TEXT - 20].rstrip()} … {digest}"


def _escaped(path: str) -> str:
    text = path.encode("utf-8", "backslashreplace").decode()
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _unescaped(path: str) -> str:
    letters = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
    return re.sub(r"\\(.)", lambda found: letters.get(found[1], found[0]), path)


def _parse(line: str, path: Path, number: int) -> tuple[Use, int]:
    parts = line.split("\t")
    if len(parts) != 4 or not re.fullmatch(r"[1-9][0-9]{0,8}", parts[2]):
        hint = "settle the merge conflict" if line.startswith(("<<<<<<<", "=======", ">>>>>>>")) else "renew it"
        raise InputError(
            f'{path}, line {number}: must be rule, file, count and text with tabs between; got "{line[:60]}": '
            f"{hint}, or run again with --write-baseline."
        )
    return Use(path=_unescaped(parts[1]), code=parts[0], line=parts[3]), int(parts[2])
