"""What the sources of a conversion call that the NPU does not have, or leaves to the host."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cache as cached
from pathlib import Path

import jumar
from jumar.base.findings import Finding
from jumar.convert import Conversion, Failure
from jumar.convert.disk.cache import fingerprint, program_fingerprint, user_cache
from jumar.convert.facts.framework import other_framework_in
from jumar.convert.model.outcome import Outcome
from jumar.convert.reports.unsupported import Unsupported

_REASONS = {
    "unsupported": "The vendor lists it as not supported.",
    "fallback": "It runs on the host, and its tensors travel there and back.",
    "unverified": "The vendor has not verified it.",
}
"""What the statuses of an assessment mean, for rows that the tables say nothing more about."""

_CACHED_FILES = 20
"""So many files take longer to assess again than to look up."""


def assessed(
    conversion: Conversion, left: Iterable[Finding], *, release: str, cache: bool = True
) -> Iterator[Unsupported]:
    """Yield one row a place where a source calls something that the NPU lacks.

    Names of torch.cuda, and places that the findings `left` are about, are the conversion's to report. `cache`
    allows an earlier answer about the very same sources to be read and kept.
    """
    files = [outcome for outcome in conversion.files if _uses_torch(outcome)]
    if not files:
        return
    known = {(finding.where.path, finding.where.line) for finding in left}
    store = user_cache() if cache and len(files) >= _CACHED_FILES else None
    key = (
        fingerprint(_tables(), release, [(file.path, hashlib.sha256(file.before).hexdigest()) for file in files])
        if store
        else ""
    )
    kept = store.read(key) if store is not None else None
    rows = _kept_rows(kept) if kept is not None else _assess(conversion.root, files, release)
    if store is not None and kept is None:
        store.write(key, [asdict(row) for row in rows])
    yield from (row for row in rows if (row.file, row.line) not in known)


def _uses_torch(outcome: Outcome) -> bool:
    is_python = outcome.path.endswith((".py", ".pyw"))
    is_whole = is_python and not isinstance(outcome, Failure)
    return is_whole and b"torch" in outcome.before and other_framework_in(outcome.before) is None


def _kept_rows(kept: Iterable[dict[str, str]]) -> list[Unsupported]:
    return [Unsupported(**row) for row in kept]  # type: ignore[arg-type]  # a digest vouches that it is what was kept


def _assess(root: Path, files: Sequence[Outcome], release: str) -> list[Unsupported]:
    from jumar.convert.assess import assess_source

    paths = [root / file.path for file in files]
    base = Path(os.path.commonpath([path.parent for path in paths]))
    return [
        Unsupported(
            name=row.name,
            status=row.status,
            file=(base / (where.path or "")).relative_to(root).as_posix(),
            line=where.line,
            reason=row.note or _REASONS[row.status],
            counterpart=row.npu_name,
            source=row.source,
        )
        for row in assess_source(paths, torch_version=release).rows
        if row.status in _REASONS and "cuda" not in row.name.lower()
        for where in row.where
    ]


@cached
def _tables() -> str:
    """Return a digest of what assesses: the programs, and the vendor's tables."""
    package = Path(jumar.__file__).parent
    folders = (package / "convert" / "assess", package / "soc" / "support", package / "soc" / "data")
    files = [
        path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".json", ".toml")
    ]
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    return fingerprint(program_fingerprint(), "assessed", digests)
