"""Two banks, or a bank and a command, side by side for `jumar doctor options`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import InputError, UsageError
from jumar.cli.answer import print_document
from jumar.cli.options import exit_code

if TYPE_CHECKING:
    from jumar.base.findings import Finding
    from jumar.tfadapter.source import CommandLine
    from jumar.tune.bank.agreement import BanksApart, ShapesApart
    from jumar.tune.bank.entry import Entry


def is_bank(text: str | Path) -> bool:
    """Tell whether a word names a knowledge bank: the URL of a database, or a folder with a bank in it."""
    from jumar.tfadapter.source import is_command
    from jumar.tune.bank.location import FILE_NAME

    word = str(text)
    if "://" in word:
        return not is_command(word)
    try:
        return (Path(word) / FILE_NAME).is_file()
    except (OSError, ValueError):  # a long command is no name of a folder
        return False


def tell_banks(words: Sequence[str], *, as_json: bool, fail_on: str) -> int:
    """Print what two banks have apart, or a bank and a command. Raises UsageError for a bank alone."""
    if len(words) != 2:
        raise UsageError("a bank must be compared with another one, or with a command; name it after the bank.")
    if all(map(is_bank, words)):
        return _tell_two(words, as_json=as_json, fail_on=fail_on)
    bank, text = sorted(words, key=lambda word: not is_bank(word))
    return _tell_command(bank, text, as_json=as_json, fail_on=fail_on)


def _tell_two(words: Sequence[str], *, as_json: bool, fail_on: str) -> int:
    from dataclasses import asdict

    from jumar.show import print_page
    from jumar.show.tuning.agreement import banks_page
    from jumar.tune.bank.agreement import banks_apart

    found = banks_apart(_entries(words[0]), _entries(words[1]))
    findings = _of_banks(found, words)
    if as_json:
        print_document(findings, banks=list(words), **asdict(found))
    else:
        print_page(banks_page(found, findings, words))
    return exit_code(findings, fail_on)


def _tell_command(bank: str, text: str, *, as_json: bool, fail_on: str) -> int:
    from jumar.show import print_page
    from jumar.show.tuning.agreement import shapes_page
    from jumar.tfadapter.options import must_agree
    from jumar.tune.bank.agreement import gears_of, shape_text, shapes_apart

    command = _command(text)
    given = command.last
    gears = [given.get(f"dynamic_{name}", "") for name in ("batch_size", "image_size", "dims")]
    names, shapes = gears_of(given.get("input_shape", ""), *gears)
    if not names:
        raise InputError(f"{command} has no --input_shape, and a bank tells shapes only; add it to compare the two.")
    found = shapes_apart(_entries(bank), shapes)
    right = None if found.nearest is None else shape_text(names, _in_order(found.nearest, found.missing[0]))
    corrected = None if right is None else str(command.changed({"input_shape": right, **_without_gears(given)}))
    findings = _of_shapes(found, names, bank)
    shape_options = {"input_shape", "dynamic_batch_size", "dynamic_image_size", "dynamic_dims"}
    untold = [name for name in must_agree() if name in given and name not in shape_options]
    if as_json:
        print_document(
            findings,
            bank=bank,
            command=str(command),
            num_gears=len(found.gears),
            missing=[shape_text(names, gear) for gear in found.missing],
            num_graphs=found.num_graphs,
            num_works=found.num_works,
            corrected=corrected,
            not_told_by_a_bank=untold,
        )
    else:
        print_page(shapes_page(found, findings, names, command, bank, corrected, untold))
    return exit_code(findings, fail_on)


def _entries(word: str) -> list[Entry]:
    from jumar.tune.bank.store import Bank

    return Bank.open(word if "://" in word else Path(word), create=False).entries()


def _command(text: str) -> CommandLine:
    """Return the one command of a text, or of a file. Raises InputError for none and for several."""
    from jumar.tfadapter.checks.report import commands_of

    found = commands_of(text)
    if len(found) != 1:
        raise InputError(f"{text} must hold one command of aoe, atc or jumar tune; it holds {len(found)}.")
    return found[0]


def _in_order(shapes: Sequence[tuple[int, ...]], like: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Return the bank's shapes in the order of the command's inputs: each takes the first of as many axes."""
    left = list(shapes)
    ordered = []
    for shape in like:
        place = next(at for at, other in enumerate(left) if len(other) == len(shape))
        ordered.append(left.pop(place))
    return tuple(ordered)


def _without_gears(given: Mapping[str, str]) -> dict[str, str | None]:
    names = ("dynamic_batch_size", "dynamic_image_size", "dynamic_dims")
    return {name: None for name in names if name in given}


def _of_banks(found: BanksApart, words: Sequence[str]) -> list[Finding]:
    from jumar.base.text import counted
    from jumar.tfadapter.checks.kinds import kind_finding

    return [
        kind_finding(
            one.kind,
            f"{counted(one.num_works, 'work')} of {words[0]} are in {words[1]} with another {one.kind}: "
            f"{one.example.name} of {one.work} is {one.example.asked} there and {one.example.in_bank} here.",
            {"num_works": one.num_works, "first": one.example.asked, "second": one.example.in_bank},
            words[1],
        )
        for one in found.kinds
    ]


def _of_shapes(found: ShapesApart, names: Sequence[str], bank: str) -> list[Finding]:
    from jumar.base.text import listing
    from jumar.tfadapter.checks.kinds import kind_finding
    from jumar.tune.bank.agreement import shape_text

    if not found.missing:
        return []
    shown = [shape_text(names, gear) for gear in found.missing]
    kind = "graph" if found.num_graphs else "operator"
    return [
        kind_finding(
            "shape",
            f"No {kind} of {bank} has inputs of {listing(shown, 3)}.",
            {"missing": list(shown), "num_graphs": found.num_graphs, "num_works": found.num_works},
            bank,
        )
    ]
