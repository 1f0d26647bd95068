"""`Memory` keeps what earlier conversions by the same program found: summaries, quiet files, outcomes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from jumar.convert.disk.cache import Cache, decode_outcome, encode_outcome, fingerprint, program_fingerprint
from jumar.convert.facts.python import Summary
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Outcome
from jumar.convert.model.project import ProjectFacts
from jumar.convert.rules.tree import conversion_defect


class Memory:
    """The cache as one conversion of `sources` uses it.

    Outcomes are entries of their own, named after everything they depend on. Summaries, and which files no rule
    looks at, depend on a file's bytes alone and are small: one entry holds those of a whole tree.
    """

    def __init__(self, store: Cache, sources: Mapping[str, bytes], options: ConvertOptions) -> None:
        self._store = store
        self._sources = sources
        self._digests = {path: hashlib.sha256(data).hexdigest() for path, data in sources.items()}
        names = sorted(sources)
        self._base = fingerprint(program_fingerprint(), options)
        self._summaries_key = fingerprint(program_fingerprint(), "summaries", names)
        self._quiet_key = fingerprint(self._base, "quiet", names)
        self._summaries = _summaries_of(store.read(self._summaries_key))
        self._quiet = _texts_of(store.read(self._quiet_key))
        self._new_quiet: set[str] = set()
        self._facts: tuple[ProjectFacts, str] | None = None

    def summary(self, path: str) -> Summary | None:
        """Return the summary of a file with these bytes, None where it is not known."""
        return self._summaries.get(self._digests[path])

    def keep_summaries(self, summaries: Mapping[str, Summary]) -> None:
        """Keep the summaries of all files."""
        value = {self._digests[path]: summary.to_json() for path, summary in summaries.items()}
        self._store.write(self._summaries_key, value)

    def is_quiet(self, path: str) -> bool:
        """Tell whether a file is known to hold no word that makes a rule look at it."""
        return self._digests[path] in self._quiet

    def keep_quiet(self, path: str) -> None:
        """Note that a file holds no such word."""
        self._new_quiet.add(self._digests[path])

    def _key(self, path: str, facts: ProjectFacts) -> str:
        if self._facts is None or self._facts[0] is not facts:
            shared = fingerprint(
                self._base,
                sorted(facts.exports),
                facts.words,
                facts.methods,
                facts.framework,
                facts.tensorflow_1,
                sorted(facts.session_configs),
            )
            self._facts = (facts, shared)
        return fingerprint(self._facts[1], path, facts.of(path), self._digests[path])

    def find(self, path: str, facts: ProjectFacts) -> tuple[Outcome | None] | None:
        """Return the outcome of a file in a tuple, None where it is not known."""
        value = self._store.read(self._key(path, facts))
        if value is None:
            return None
        if value == {}:
            return (None,)
        outcome = decode_outcome(value, path, self._sources[path])
        return None if outcome is None else (outcome,)

    def keep(self, path: str, facts: ProjectFacts, outcome: Outcome | None) -> None:
        """Keep an outcome that comes back equal from its JSON form, but no defect: it may be gone next time."""
        if outcome is None:
            self._store.write(self._key(path, facts), {})
            return
        value = encode_outcome(outcome)
        if any(finding.code == conversion_defect.RULE.code for finding in outcome.findings):
            return
        if decode_outcome(value, path, self._sources[path]) == outcome:
            self._store.write(self._key(path, facts), value)

    def close(self) -> None:
        """Write what was gathered, and bring the cache back to its size."""
        if self._new_quiet:
            known = self._quiet & set(self._digests.values())
            self._store.write(self._quiet_key, sorted(known | self._new_quiet))
        self._store.prune()


def _summaries_of(value: Any) -> dict[str, Summary]:
    try:
        return {digest: Summary.from_json(summary) for digest, summary in (value or {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _texts_of(value: Any) -> frozenset[str]:
    return frozenset(item for item in value if isinstance(item, str)) if isinstance(value, list) else frozenset()
