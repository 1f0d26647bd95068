"""What two banks, or a bank and the shapes of a command, have apart: shapes, dtypes, layouts, or the structure.

A bank does not hold the options it was filled under. It holds what they made: the shapes, dtypes and operators of each
operator call and graph. So a difference is told by its kind; `jumar.tfadapter` knows which options change that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from jumar.base.errors import UsageError
from jumar.tune.bank.entry import Entry
from jumar.tune.bank.neighbours import Difference, differences
from jumar.tune.graph import Graph
from jumar.tune.graph.graph import Work, structure_of
from jumar.tune.model.machine import Machine

Kind = Literal["shape", "dtype", "format", "structure"]
KINDS: tuple[Kind, ...] = ("structure", "dtype", "shape", "format")
"""What weighs more stands first: with another structure shapes say little."""
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindApart:
    """Works of one bank that the other one knows in another form only."""

    kind: Kind
    num_works: int
    example: Difference
    """`asked` is the first bank's, `in_bank` the second's."""
    work: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BanksApart:
    """Two banks side by side. A work is an operator call or a graph."""

    num_first: int
    num_second: int
    num_both: int
    kinds: Sequence[KindApart]
    num_only_first: int
    """Works of the first of whose operator the second has nothing, or nothing that is not in both."""
    machines_apart: bool
    """Whether no machine is in both."""


def kind_of(difference: Difference) -> Kind | None:
    """Return what of the network differs; None for the machine and versions, which no option changes."""
    what = difference.name.partition(" ")[0]
    if difference.name in Machine.__dataclass_fields__ or what in ("version", "provider"):
        return None
    kinds: dict[str, Kind] = {"shape": "shape", "dtype": "dtype", "stride": "format"}
    return kinds.get(what, "structure") if " of " in difference.name else "structure"


def kinds_of(found: Iterable[Difference]) -> dict[Kind, Difference]:
    """Return the first difference of each kind. A layout that follows from another shape is none of its own."""
    kinds: dict[Kind, Difference] = {}
    for one in found:
        kind = kind_of(one)
        if kind is not None:
            kinds.setdefault(kind, one)
    if "shape" in kinds:
        kinds.pop("format", None)
    return kinds


def banks_apart(first: Sequence[Entry], second: Sequence[Entry]) -> BanksApart:
    """Compare what two banks know: for each work that only the first has, its nearest in the second alone."""
    one, other = _works(first), _works(second)
    spare = [work for key, work in other.items() if key not in one]
    counts: dict[Kind, int] = {}
    examples: dict[Kind, tuple[Difference, str]] = {}
    num_only = 0
    machine = first[0].machine if first else None
    for key, work in one.items():
        if key in other or machine is None:
            continue
        related = [candidate for candidate in spare if candidate.operator == work.operator]
        if not related:
            num_only += 1
            continue
        found = kinds_of(differences(work, machine, _nearest(work, machine, related), machine))
        for kind, difference in found.items():
            counts[kind] = counts.get(kind, 0) + 1
            examples.setdefault(kind, (difference, work.operator))
    machines = [{entry.machine.key for entry in entries} for entries in (first, second)]
    return BanksApart(
        num_first=len(one),
        num_second=len(other),
        num_both=len(one.keys() & other.keys()),
        kinds=[
            KindApart(kind=kind, num_works=counts[kind], example=examples[kind][0], work=examples[kind][1])
            for kind in KINDS
            if kind in counts
        ],
        num_only_first=num_only,
        machines_apart=bool(first and second) and not machines[0] & machines[1],
    )


def _works(entries: Iterable[Entry]) -> dict[str, Work]:
    return {entry.task.key: entry.task for entry in entries}


def _nearest(work: Work, machine: Machine, related: Sequence[Work]) -> Work:
    structure = structure_of(work)

    def distance(other: Work) -> tuple[bool, int]:
        return structure_of(other) != structure, len(differences(work, machine, other, machine))

    return min(related, key=distance)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapesApart:
    """The shapes that a command asks for beside those of a bank."""

    gears: Sequence[Shapes]
    """The shapes of the inputs in each gear of the command."""
    missing: Sequence[Shapes]
    """Gears that the bank does not have."""
    num_graphs: int
    num_works: int
    nearest: Shapes | None
    """The inputs of the graph with as many inputs of as many axes each; None: there is none."""


def shapes_apart(entries: Sequence[Entry], gears: Sequence[Shapes]) -> ShapesApart:
    """Return which gears a bank has: a graph with just these inputs; without graphs, a tensor of each shape."""
    works = list(_works(entries).values())
    graphs = [tuple(work.inputs[place].shape for place in work.variables) for work in works if isinstance(work, Graph)]
    seen = {spec.shape for work in works for spec in work.tensors.values()}
    known = (lambda gear: any(sorted(gear) == sorted(graph) for graph in graphs)) if graphs else seen.issuperset
    missing = [gear for gear in gears if not known(gear)]
    ranks = sorted(map(len, missing[0])) if missing else []
    return ShapesApart(
        gears=gears,
        missing=missing,
        num_graphs=len(graphs),
        num_works=len(works),
        nearest=next((graph for graph in graphs if missing and sorted(map(len, graph)) == ranks), None),
    )


def gears_of(input_shape: str, batches: str = "", images: str = "", dims: str = "") -> tuple[list[str], list[Shapes]]:
    """Return the names of the inputs and the shapes in each gear, as `aoe` and `atc` write them.

    `input_shape` is `x:-1,3,224,224;y:1,2`; `batches` (`1,2,4`), `images` (`112,112;224,224`) and `dims` (`1,2;4,2`)
    are the gears of its -1. Raises UsageError for another form, and for a -1 without gears.
    """
    names: list[str] = []
    shapes: list[list[int]] = []
    for part in filter(None, (part.strip() for part in input_shape.split(";"))):
        name, _, sizes = part.rpartition(":")
        names.append(name)
        try:
            shapes.append([int(size) for size in sizes.split(",")])
        except ValueError as error:
            raise UsageError(f'"--input_shape={input_shape}" must be NAME:N,C,H,W;…, with whole numbers.') from error
    num_open = sum(size == -1 for shape in shapes for size in shape)
    rows = _rows(batches, images, dims, num_open)
    return names, [_filled(shapes, row, input_shape) for row in rows]


def _rows(batches: str, images: str, dims: str, num_open: int) -> Iterator[list[int]]:
    try:
        if dims or images:
            yield from ([int(size) for size in row.split(",")] for row in (dims or images).split(";") if row.strip())
        elif batches:
            yield from ([int(size)] * num_open for size in batches.split(",") if size.strip())
        else:
            yield []
    except ValueError as error:
        raise UsageError("the gears of --dynamic_batch_size, --dynamic_image_size and --dynamic_dims must be whole "
                         "numbers between commas, and gears between semicolons.") from error  # fmt: skip


def _filled(shapes: Sequence[Sequence[int]], row: Sequence[int], text: str) -> Shapes:
    num_open = sum(size == -1 for shape in shapes for size in shape)
    if num_open != len(row):
        raise UsageError(f'"--input_shape={text}" has {num_open} sizes of -1, and a gear has {len(row)}; give as many.')
    left = itertools.chain(row)
    return tuple(tuple(next(left) if size == -1 else size for size in shape) for shape in shapes)


def shape_text(names: Sequence[str], shapes: Shapes) -> str:
    """Return shapes as `--input_shape` writes them."""
    sizes = (",".join(map(str, shape)) for shape in shapes)
    return ";".join(f"{name}:{size}" if name else size for name, size in zip(names, sizes, strict=True))
