"""The sizes of a file's inputs: those of a gear of `--input-shape`, else the model's own, where it names them all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jumar.base.errors import UsageError
from jumar.tune.graph.capture.captured import Gear, InputShape
from jumar.tune.model.errors import TuneError

Known = tuple[str, Sequence[int | None]]
"""An input's name and sizes, None for each that changes. Without sizes: a number, or not known how many."""


def chosen_shapes(path: Path, inputs: Sequence[Known], gear: Gear) -> list[InputShape]:
    """Return the shape of each input.

    Raises UsageError for a gear of other inputs or sizes, TuneError where a size changes and the gear names none.
    """
    names = [name for name, _ in inputs]
    given = {shape.name or names[0]: shape for shape in gear}
    strange = sorted(set(given) - set(names))
    if strange:
        raise UsageError(f"--input-shape names {', '.join(strange)}, and the inputs of {path} are {', '.join(names)}.")
    found = []
    for name, sizes in inputs:
        if name in given:
            _check(path, name, given[name], sizes)
            found.append(given[name])
        elif None in sizes:
            raise TuneError(
                f"{path} takes changing sizes ({'; '.join(changing_sizes(inputs))}), and sizes are tuned one by one; "
                f'name them: --input-shape "{name}:{",".join("1" if size is None else str(size) for size in sizes)}".'
            )
        else:
            found.append(InputShape(name=name, shape=tuple(size for size in sizes if size is not None)))
    return found


def changing_sizes(inputs: Sequence[Known]) -> list[str]:
    """Return the dimensions that have no fixed size: `x: dimension 0`."""
    found = []
    for name, sizes in inputs:
        places = [str(place) for place, size in enumerate(sizes) if size is None]
        if places:
            found.append(f"{name}: dimension {', '.join(places)}")
    return found


def _check(path: Path, name: str, shape: InputShape, sizes: Sequence[int | None]) -> None:
    fits = len(sizes) == len(shape.shape) and all(
        known in {None, size} for known, size in zip(sizes, shape.shape, strict=True)
    )
    if sizes and not fits:
        must = ",".join("?" if size is None else str(size) for size in sizes)
        raise UsageError(f'--input-shape gives {name} the sizes {shape}, and {path} takes "{must}" (? is any size).')
