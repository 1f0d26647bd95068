"""Which operators are tuned when not all are: the vendor's `--tune_ops_file`.

    {"tune_ops_name": ["layer1.0.conv1/convolution_OPAT_0"], "tune_ops_type": ["convolution", "Conv2D"]}

Whole words; an operator is meant when its name or its type is listed (the union of both keys). A name is the one
that results print, or the module path it begins with; a type is PyTorch's (`convolution`, `aten::addmm`) or the
vendor's (`Conv2D`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jumar.base.errors import InputError
from jumar.tune.search.tasks.extract import Extraction, NotTuned, TaskUse

KEYS = ("tune_ops_name", "tune_ops_type")
REASON = "it is not among the operators that were asked for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The names and types that are meant."""

    names: frozenset[str]
    types: frozenset[str]
    source: str
    """The file they come from."""

    def means(self, use: TaskUse) -> bool:
        """Tell whether a task is meant."""
        return bool(self.types & _types(use) or self.names & _names(use))

    def unknown(self, uses: Sequence[TaskUse]) -> list[str]:
        """Return the names and types that none of these tasks has."""
        known_names = set[str]().union(*map(_names, uses))
        known_types = set[str]().union(*map(_types, uses))
        return sorted((self.names - known_names) | (self.types - known_types))


def _names(use: TaskUse) -> set[str]:
    return {use.name, *use.module_paths}


def _types(use: TaskUse) -> set[str]:
    operator = use.task.operator
    return {operator, operator.partition(".")[0], use.task.base, *vendor_types(operator)}


def read_selection(path: Path) -> Selection:
    """Read a `--tune-ops-file`. Raises InputError, which says what must be there."""
    form = '{"tune_ops_name": [...], "tune_ops_type": [...]}'
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}. It must be a file that holds {form}.") from error
    except ValueError as error:
        raise InputError(f"{path} must hold JSON, {form}; {error}.") from error
    lists = {key: found.get(key, []) for key in KEYS} if isinstance(found, dict) else {}
    fine = all(isinstance(items, list) and all(isinstance(item, str) for item in items) for items in lists.values())
    if not lists or not fine or not any(lists.values()):
        raise InputError(f"{path} must hold {form} with at least one name or type.")
    if unknown := sorted(set(found) - set(KEYS)):
        raise InputError(f"{path} may hold {' and '.join(KEYS)}; it also has {', '.join(unknown)}. Leave that out.")
    return Selection(names=frozenset(lists["tune_ops_name"]), types=frozenset(lists["tune_ops_type"]), source=str(path))


def select(extraction: Extraction, selection: Selection) -> Extraction:
    """Return what is meant of the tasks; the others are listed as not tuned. Raises InputError when none is."""
    chosen = [use for use in extraction.tasks if selection.means(use)]
    if not chosen:
        known = ", ".join(sorted({use.task.base for use in extraction.tasks})) or "none"
        raise InputError(f"{selection.source} names no operator that can be tuned here; types there are: {known}.")
    others = [
        NotTuned(operator=use.name, reason=REASON, num_calls=use.num_calls, recorded_us=use.recorded_us)
        for use in extraction.tasks
        if not selection.means(use)
    ]
    unknown = selection.unknown(extraction.tasks)
    note = f"{selection.source} names {', '.join(unknown)}, which no operator here that can be tuned is."
    notes = [*extraction.notes, *([note] if unknown else [])]
    return replace(extraction, tasks=chosen, not_tuned=[*extraction.not_tuned, *others], notes=notes)


def vendor_types(operator: str) -> frozenset[str]:
    """Return the vendor's kernel types that compute an aten operator, of both routes: `Conv2D`, `MatMulV2`."""
    from jumar.soc.estimate.classes import classify

    known = classify(operator)
    return frozenset(kind for is_aclnn in (False, True) for kind in known.kernel_types(is_aclnn=is_aclnn))
