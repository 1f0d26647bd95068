"""JSON documents, read with their types checked: `RunInfo` and `RunEnd`, and those of other programs.

`json.loads` raises RecursionError for `[[[[…`, UnicodeDecodeError for other encodings, and takes half of a surrogate
pair (`"\\ud800"`), which no file and no terminal takes later. A list where an object belongs shows only where it is
used. `read` and `parse` read any text within bounds, `built` makes a dataclass of an object whose values have the types
of its fields; fields that a reader does not know are left out.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from jumar.base.errors import RecordingError
from jumar.recording.schema import RUN_FILE, SCHEMA_VERSION, RunEnd, RunInfo, StepInfo

LIMIT_BYTES = 1 << 30
DEEPEST = 100
"""A row's arguments may be nested so deep: they are read again wherever they are judged, also far down a stack."""
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_ESCAPED_HALF = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
T = TypeVar("T")


class DocumentError(ValueError):
    """A text is no JSON, or holds values of other types than it must. The message is part of a sentence."""


def to_text(document: RunInfo | RunEnd) -> str:
    """Return the document as indented JSON; values JSON has no form for become their `str`."""
    return json.dumps(asdict(document), indent=2, default=str) + "\n"


def read_run_info(folder: Path) -> RunInfo:
    """Read `run.json` of `folder`.

    Raises RecordingError in one sentence when the folder is missing or foreign, or its schema is
    newer than this Jumar reads.
    """
    if not folder.is_dir():
        raise RecordingError(f"{folder} is not a folder. Name the folder that `jumar record -o` wrote.")
    path = folder / RUN_FILE
    if not path.is_file():
        raise RecordingError(
            f"{folder} is not a recording: it has no {RUN_FILE}. Name the folder that `jumar record -o` wrote."
        )
    data = _load(path)
    if not _is_ours(data):
        raise RecordingError(f"{path} was not written by Jumar. Name the folder that `jumar record -o` wrote.")
    if data["schema_version"] > SCHEMA_VERSION:
        raise RecordingError(
            f"{folder} has schema {data['schema_version']} (written by Jumar {data['jumar_version']}) and this Jumar "
            f"reads up to {SCHEMA_VERSION}. Update Jumar, or record again with this one."
        )
    try:
        return built(RunInfo, data)
    except DocumentError as error:
        raise RecordingError(f"{path} is damaged: {error}. Record again.") from error


def read_run_end(path: Path) -> RunEnd:
    """Read an `end-rank-R.json`. Raises RecordingError when it is cut short or foreign."""
    try:
        return built(RunEnd, _load(path))
    except DocumentError as error:
        raise RecordingError(f"{path} does not describe the end of a run: {error}. Record again.") from error


def step_info_text(info: StepInfo) -> bytes:
    """Return the text for a step file's metadata."""
    return json.dumps(asdict(info)).encode()


def step_info_from(text: bytes | None) -> StepInfo:
    """Return the `StepInfo` in a step file's metadata; an empty one for a file without. Raises DocumentError."""
    return built(StepInfo, mapping(parse(text))) if text else StepInfo()


def is_recording(folder: Path) -> bool:
    """Tell whether `folder` is a recording of any schema, by its `run.json`."""
    try:
        return _is_ours(_load(folder / RUN_FILE))
    except RecordingError:
        return False


def _is_ours(data: Mapping[str, Any]) -> bool:
    version = data.get("schema_version")
    return isinstance(version, int) and not isinstance(version, bool) and "jumar_version" in data


def _load(path: Path) -> Mapping[str, Any]:
    try:
        data = read(path)
    except (OSError, DocumentError) as error:
        raise RecordingError(f"{path} cannot be read as JSON: {error}. Record again.") from error
    if not isinstance(data, dict):
        raise RecordingError(f"{path} must hold a JSON object; got {told(data)}. Record again.")
    return data


def parse(text: str | bytes | memoryview) -> Any:
    """Return the value in a JSON text; NaN and Infinity are read as numbers. Raises DocumentError."""
    if len(text) > LIMIT_BYTES:
        raise DocumentError(f"it has {len(text):,} bytes, and at most {LIMIT_BYTES:,} are read")
    try:
        words = text if isinstance(text, str) else bytes(text).decode("utf-8")
        value = json.loads(words)
    except RecursionError as error:
        raise DocumentError("it is nested too deeply") from error
    except (ValueError, MemoryError) as error:
        raise DocumentError(str(error).partition("\n")[0] or type(error).__name__) from error
    return _whole(value) if _HALF_PAIR.search(words) or _ESCAPED_HALF.search(words) else value


def read(path: Path) -> Any:
    """Return the value in a JSON file. Raises DocumentError, and OSError where it cannot be read."""
    size = path.stat().st_size
    if size > LIMIT_BYTES:
        raise DocumentError(f"it has {size:,} bytes, and at most {LIMIT_BYTES:,} are read")
    return parse(path.read_bytes())


def check_arguments(*texts: str | None) -> None:
    """Check the `arguments` of rows: empty, or a JSON object that is not nested deeply. Raises DocumentError."""
    for text in texts:
        if text:
            mapping(_shallow(parse(text), DEEPEST))


def _shallow(value: Any, levels: int) -> Any:
    """Return a JSON value. Raises DocumentError where more than so many levels are within each other."""
    if isinstance(value, (list, dict)):
        if not levels:
            raise DocumentError("it is nested too deeply")
        for inner in value.values() if isinstance(value, dict) else value:
            _shallow(inner, levels - 1)
    return value


def mapping(value: Any, what: str = "it") -> Mapping[str, Any]:
    """Return a value that must be a JSON object. Raises DocumentError, with `what` as its subject."""
    if not isinstance(value, dict):
        raise DocumentError(f"{what} must be a JSON object; got {told(value)}")
    return value


def built(kind: type[T], data: Mapping[str, Any]) -> T:
    """Return the dataclass `kind` of a JSON object. Lists become tuples; fields that it does not know are left out.

    Raises DocumentError for a value of another type than the field's, and for a field without default that is missing.
    """
    hints = _hints(kind)  # type: ignore[arg-type]  # a class is hashable
    given: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]  # a dataclass
        if field.name in data:
            value = _as_declared(data[field.name], hints[field.name])
            if not fits(value, hints[field.name]):
                raise DocumentError(f'"{field.name}" must be {_named(hints[field.name])}; got {told(data[field.name])}')
            given[field.name] = value
        elif field.default is MISSING and field.default_factory is MISSING:
            raise DocumentError(f'it has no "{field.name}"')
    return kind(**given)


def fits(value: Any, hint: Any) -> bool:
    """Tell whether a value is of a declared type: a class, `Literal`, a union, or a collection of such.

    A whole number is a float, too; True and False are no numbers.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return isinstance(value, (str, int, bool)) and value in inner
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    return _is_plain(value, hint) if origin is None else _is_collection(value, origin, inner)


def _is_plain(value: Any, hint: Any) -> bool:
    if hint in (int, float):
        return isinstance(value, (int, float) if hint is float else int) and not isinstance(value, bool)
    return hint is Any or (value is None if hint in (None, type(None)) else isinstance(value, hint))


def _is_collection(value: Any, origin: Any, inner: tuple[Any, ...]) -> bool:
    if issubclass(origin, Mapping):
        is_one = isinstance(value, Mapping)
        return is_one and all(fits(key, inner[0]) and fits(one, inner[1]) for key, one in value.items())
    if origin is tuple and inner[1:] != (Ellipsis,):
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(fits, value, inner))
    return isinstance(value, (list, tuple)) and all(fits(one, inner[0]) for one in value)


def told(value: Any) -> str:
    """Return a value as a sentence names it: its kind in JSON, and the value where it is short."""
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    if value is None:
        return "null"
    if isinstance(value, (str, bool, float)) or (isinstance(value, int) and abs(value) < 1 << 64):
        shown = ascii(value)
        return shown if len(shown) <= 40 else f"{shown[:37]}..."
    return kinds.get(type(value), type(value).__name__)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _as_declared(value: Any, hint: Any) -> Any:
    """Return a list as a tuple where the field is one."""
    wants_tuple = any(get_origin(one) is tuple for one in (hint, *get_args(hint)))
    return tuple(value) if wants_tuple and isinstance(value, list) else value


def _named(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", type(None): "null"}
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin in (Union, types.UnionType):
        return " or ".join(map(_named, inner))
    if origin in (tuple, list, Sequence):
        return "a list"
    return "an object" if origin in (dict, Mapping) else names.get(hint, str(hint))


def _whole(value: Any) -> Any:
    """Return a value whose texts can be written: half of a surrogate pair stands as `\\ud800`."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [_whole(one) for one in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(one) for key, one in value.items()}
    return value


def whole_text(text: str) -> str:
    """Return a text that can be shown: half of a surrogate pair, or a byte of another encoding, is spelled."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
