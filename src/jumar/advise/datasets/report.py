"""A report of MindSpore's dataset autotune, or a pipeline that `mindspore.dataset.serialize` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError

_MOST_BYTES = 64 << 20
_DEEPEST = 1000
UNCHANGED = "No configuration changes were made"
"""Words of a report whose autotune left all settings as they were."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One operator of a pipeline. None where the file has no setting of it."""

    name: str
    """Its kind and what it does: `Map (Decode, Resize)`."""
    num_parallel_workers: int | None
    prefetch_size: int | None
    """Rows that its output queue holds."""
    python: tuple[str, ...] = ()
    """Names of its Python functions, which a file cannot hold."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline of data, from its source to what the model gets."""

    path: Path
    stages: tuple[Stage, ...]
    tree: Mapping[str, Any]
    """As MindSpore wrote it."""
    remark: str = ""
    """What autotune says; empty for a pipeline that was only serialised."""

    @property
    def is_report(self) -> bool:
        """Whether autotune wrote the file."""
        return bool(self.remark)

    @property
    def is_changed(self) -> bool:
        """Whether autotune changed a setting."""
        return self.is_report and UNCHANGED not in self.remark


def is_pipeline(path: Path) -> bool:
    """Tell whether a file is a report of autotune or a serialised pipeline. Raises nothing."""
    if path.suffix != ".json" or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError:
        return False
    return all(word in start for word in (b'"remark"', b"AutoTune")) or (
        b'"children"' in start and b'"op_type"' in start
    )


def read_pipeline(path: Path) -> Pipeline:
    """Read a report or a serialised pipeline. Raises InputError for anything else."""
    document = _document(path)
    tree = document.get("tree", document)
    if not isinstance(tree, dict) or "op_type" not in tree:
        raise InputError(
            f'{path} must hold a pipeline of MindSpore ("tree" with "op_type"); it has '
            f"{', '.join(document) or 'nothing'}. "
            "Name the file that ds.config.set_enable_autotune(True, FILE) or ds.serialize(dataset, FILE) wrote."
        )
    remark = document.get("remark", "")
    return Pipeline(path, tuple(_stage(path, node) for node in _nodes(path, tree)), tree, str(remark))


def _document(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"{path} must be smaller than 64 MiB to be a dataset's pipeline. Name another file.")
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}). Name a file that you may read.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must be JSON; it is not ({error}). It may be cut short: write it again.") from error
    if not isinstance(document, dict):
        raise InputError(f"{path} must hold one JSON object; it holds a {type(document).__name__}. Name another file.")
    return document


def _nodes(path: Path, tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the operators from the sources on: the deepest first."""
    ordered, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        ordered.append(node)
        children = node.get("children", [])
        if not isinstance(children, list) or not all(isinstance(child, dict) for child in children):
            raise InputError(f'{path}: "children" of an operator must be a list of operators. Write the file again.')
        waiting += children
        if len(ordered) > _DEEPEST:
            raise InputError(f"{path} must have at most {_DEEPEST:,} operators. Name another file.")
    yield from reversed(ordered)


def _stage(path: Path, node: Mapping[str, Any]) -> Stage:
    kind = node.get("op_type")
    if not isinstance(kind, str):
        raise InputError(f'{path}: "op_type" of an operator must be a name; got {kind!r}. Write the file again.')
    operations = node.get("operations")
    known = [one for one in operations if isinstance(one, dict)] if isinstance(operations, list) else []
    names = [str(one.get("tensor_op_name", "?")) for one in known]
    python = tuple(name for name, one in zip(names, known, strict=True) if "tensor_op_params" not in one)
    return Stage(
        name=f"{kind} ({', '.join(names)})" if names else kind,
        num_parallel_workers=_number(node, "num_parallel_workers"),
        prefetch_size=_number(node, "connector_queue_size"),
        python=python,
    )


def _number(node: Mapping[str, Any], key: str) -> int | None:
    value = node.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
