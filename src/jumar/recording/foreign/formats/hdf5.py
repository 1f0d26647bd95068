"""The HDF5 layout of `torch.utils.dumper`: `/operator/number/input/argument`, `/operator/number/output/result`.

Copies of parts that `h5copy` made are the same with fewer groups. Where the numbers count an operator each, the
order between operators is that in which the file was written. Files of Jumar's own recordings
(`/op/forward/path/name/occurrence/input/…`) are read too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from jumar.base.errors import RecordingError
from jumar.recording.documents import DocumentError, check_arguments
from jumar.recording.foreign.dump import Dump, DumpFormat, Part
from jumar.recording.foreign.values import call_row
from jumar.recording.schema import CallRow, Kind, Phase

if TYPE_CHECKING:
    import numpy as np

    from jumar.recording.tensors.guard import Guard

SIGNATURE = b"\x89HDF\r\n\x1a\n"
ATTRIBUTES = ("step", "kind", "phase", "module_path", "module_type", "source", "arguments", "occurrence")
SIDES = ("input", "output", "grad_output", "grad_input")


def is_hdf5(path: Path) -> bool:
    """Return whether a file begins as HDF5 files do."""
    try:
        with path.open("rb") as file:
            return file.read(len(SIGNATURE)) == SIGNATURE
    except OSError:
        return False


def open_hdf5(path: Path) -> Dump:
    """Return the dump in an HDF5 file. Raises RecordingError where it is damaged or holds no operators."""
    places = _places(path)
    if not places:
        raise RecordingError(
            f"{path} holds no operators in the form /operator/number/input or /operator/number/output; name a file of "
            "torch.utils.dumper."
        )
    steps: dict[int, list[str]] = {}
    for place in places:
        steps.setdefault(_step(path, place), []).append(place)
    return Dump(path, "HDF5 of torch.utils.dumper", {(step, 0): _part(path, found) for step, found in steps.items()})


def annotate(path: Path, rows: Mapping[str, CallRow]) -> None:
    """Write into attributes of the groups what the layout has no place for. Raises OSError."""
    import h5py

    with h5py.File(path, "r+") as file:
        for place, row in rows.items():
            for name in ATTRIBUTES:
                file[place].attrs[name] = getattr(row, name)


def _part(path: Path, places: list[str]) -> Part:
    return Part(rows=lambda: list(_rows(path, places)), tensors=lambda row: _arrays(path, places[row.seq])[0])


def _step(path: Path, place: str) -> int:
    found = _attributes(path, place).get("step", 0)
    return int(found) if isinstance(found, (int, str)) and str(found).isdecimal() else 0


def _attributes(path: Path, place: str) -> dict[str, Any]:
    """Return what `annotate` wrote, plain values only; nothing for a file of another writer."""
    with _opened(path, place) as file:
        attributes = file.item(place).attrs
        found = {name: attributes[name] for name in ATTRIBUTES if name in attributes}
    return {name: value if isinstance(value, str) else int(value) for name, value in found.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int)) or (getattr(value, "shape", None) == () and value.dtype.kind in "iu")


@contextmanager
def _opened(path: Path, place: str = "") -> Iterator[Guard]:
    """Open a file for reading. What is wrong with it, at a place in it, becomes a RecordingError."""
    from jumar.recording.tensors.guard import Guard, UnsafeFileError

    try:
        file = Guard(path)
    except (OSError, RuntimeError, ValueError) as error:
        raise RecordingError(f"{path} is cut short or no HDF5 file ({_first(error)}); dump it again.") from error
    with file:
        try:
            yield file
        except UnsafeFileError as error:
            raise RecordingError(f"{path} is not read: {error}; dump the tensors themselves.") from error
        except Exception as error:  # what h5py raises depends on which byte is damaged
            where = f" at {place}" if place else ""
            raise RecordingError(f"{path} is damaged{where} ({_first(error)}); dump it again.") from error


def _first(error: Exception) -> str:
    return str(error).partition("\n")[0][:100] or type(error).__name__


def _places(path: Path) -> list[str]:
    """Return the groups that have inputs or outputs, in the order of the calls as far as the file shows it."""
    import h5py

    found: dict[str, int] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Group) and any(side in item for side in SIDES):
            found[name] = h5py.h5o.get_info(item.id).addr

    with _opened(path) as file:
        file.hdf5.visititems(visit)  # passes no link to another file
    numbers = [_number(place) for place in found]
    if None not in numbers and len(set(numbers)) == len(numbers):  # numbered through all operators
        return sorted(found, key=lambda place: _number(place) or 0)
    # NOTE: HDF5 places an object header behind those that were there before, so addresses follow the calls.
    return sorted(found, key=lambda place: found[place])


def _number(place: str) -> int | None:
    last = place.rpartition("/")[2]
    return int(last) if last.isdecimal() else None


def _rows(path: Path, places: list[str]) -> Iterator[CallRow]:
    for place in places:
        arrays, dtypes = _arrays(path, place)
        inputs = {name: array for name, array in arrays.items() if name.startswith(("input", "grad_output"))}
        outputs = {name: array for name, array in arrays.items() if name not in inputs}
        operator, kind, phase, module, occurrence = _identity(place)
        row = call_row(operator, inputs, outputs, dtypes, kind=kind, phase=phase, module_path=module)
        row = replace(row, occurrence=occurrence)
        stated = {name: value for name, value in _attributes(path, place).items() if _fits(name, value)}
        yield replace(row, **stated) if stated else row


def _fits(name: str, value: Any) -> bool:
    known = {"kind": get_args(Kind), "phase": get_args(Phase)}
    if name == "step":
        return False  # the part says it
    if name in known:
        return value in known[name]
    if name == "arguments":
        return isinstance(value, str) and _are_arguments(value)
    return isinstance(value, int) and value >= 0 if name == "occurrence" else isinstance(value, str)


def _are_arguments(text: str) -> bool:
    try:
        check_arguments(text)
    except DocumentError:
        return False
    return True


def _identity(place: str) -> tuple[str, Kind, Phase, str, int]:
    """Return operator, kind, phase, module path and number of a group, of `op1/3` or of a recording's own keys."""
    parts = place.split("/")
    if len(parts) >= 5 and parts[0] in get_args(Kind) and parts[1] in get_args(Phase):
        kind, phase, module = parts[0], parts[1], "" if parts[2] == "-" else parts[2]
        return "/".join(parts[3:-1]), cast(Kind, kind), cast(Phase, phase), module, max(_number(place) or 0, 0)
    number = _number(place)
    operator = place if number is None else place.rpartition("/")[0]
    is_backward = any(word in operator.lower() for word in ("backward", "_grad"))
    occurrence = -1 if number is None else max(number - 1, 0)
    return operator or place, "op", "backward" if is_backward else "forward", "", occurrence


def _arrays(path: Path, place: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the arrays of one call, and PyTorch's names of their dtypes."""
    import h5py

    from jumar.recording.tensors.arrays import read_data
    from jumar.recording.tensors.building import VIEW_OF
    from jumar.recording.tensors.guard import is_plain

    arrays: dict[str, np.ndarray] = {}
    dtypes: dict[str, str] = {}
    with _opened(path, place) as file:
        call = file.item(place)
        for side in SIDES:
            for name, data in _datasets(file, call, side):
                if not isinstance(data, h5py.Dataset) or not is_plain(data):
                    continue
                if data.attrs.get(VIEW_OF, data.name) not in file.hdf5:
                    continue  # a copy of a part: the memory that this was a view of stayed behind
                arrays[f"{side}.{name}"], dtypes[f"{side}.{name}"] = read_data(data, file)
    return arrays, dtypes


def _datasets(file: Guard, call: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield a side's data sets: those of a group by name, or the one data set that stands in its place."""
    import h5py

    side = file.item(name, call) if call.get(name, getclass=True, getlink=True) is not None else None
    if isinstance(side, h5py.Dataset):
        yield "0", side
    elif isinstance(side, h5py.Group):
        for part in sorted(side, key=_natural):
            yield part, file.item(part, side)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (1 << 30, part) for part in name.split(".")]


FORMAT = DumpFormat("HDF5 of torch.utils.dumper", is_hdf5, open_hdf5)
