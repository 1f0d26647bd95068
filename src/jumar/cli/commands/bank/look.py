"""`jumar bank list|show|why-miss`: what is in the bank, and why it has nothing for an operator."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from jumar.base.text import counted
from jumar.cli.answer import print_document
from jumar.cli.main import Command
from jumar.cli.options import bank_option, json_option, open_bank, open_layers
from jumar.show.tuning.bank import described, known_table, make_table, measured, print_table

if TYPE_CHECKING:
    from jumar.tfadapter.checks.report import OptionReport
    from jumar.tune.bank.precisions import Known
    from jumar.tune.bank.presence import Lookup
    from jumar.tune.bank.store import Bank
    from jumar.tune.graph.graph import Work


@click.command("list", cls=Command)
@click.argument("operator", required=False)
@bank_option
@json_option
def list_(*, operator: str | None, bank: str | None, as_json: bool) -> int:
    """List the entries. With OPERATOR: those with OPERATOR in the operator's name."""
    opened = open_bank(bank)
    entries = [entry for entry in opened.entries() if operator is None or operator in entry.task.operator]
    lowered = [one for one in opened.precisions() if operator is None or operator in one.task.operator]
    if as_json:
        print_document(
            entries=[entry.to_json() for entry in entries],
            precisions=[one.to_json() for one in lowered],
            bank=opened.name,
        )
        return 0
    known: list[Known] = [*entries, *lowered]
    num_found = sum(entry.policy is not None for entry in entries)
    fewer = f", {counted(len(lowered), 'plan')} in fewer bits" if lowered else ""
    print_table(
        f"{counted(num_found, 'policy', 'policies')} and {len(entries) - num_found} without a faster one{fewer} in "
        f"{opened.name}.",
        known_table(known),
    )
    return 0


@click.command(cls=Command)
@click.argument("key")
@bank_option
@json_option
def show(*, key: str, bank: str | None, as_json: bool) -> int:
    """Show everything that was measured for the operator whose key begins with KEY."""
    from jumar.tune.bank.entry import Entry

    found = _known_of(open_bank(bank), key)
    if as_json:
        entries = [one.to_json() for one in found if isinstance(one, Entry)]
        print_document(entries=entries, precisions=[one.to_json() for one in found if not isinstance(one, Entry)])
        return 0
    for line in (*described(found[0].task), *(line for entry in found for line in measured(entry))):
        click.echo(line)
    return 0


@click.command("why-miss", cls=Command)
@click.argument("source", metavar="RECORDING_OR_MODEL")
@click.argument("operator", required=False)
@click.option("--input-shape", default="", metavar="SHAPES", help="Sizes of a model's inputs, as for jumar tune.")
@click.option("--device", default="cpu", show_default=True, help="The device to look for.")
@click.option("--tuned-with", metavar="COMMAND", help="The command of the tuning, in quotes, or a file with it.")
@click.option("--used-with", metavar="COMMAND", help="The command of the use: options that disagree are named.")
@bank_option
@json_option
def why_miss(
    *, source: str, operator: str | None, input_shape: str, device: str, tuned_with: str | None, used_with: str | None,
    bank: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Say for each operator of a recording, or graph of a model, whether the bank has it.

    Where the bank has none, name the property that differs from the nearest entry: a shape, a stride, an
    argument, an operator, the machine, or the version of an engine; and the options of aoe and atc that change it,
    which tuning and use must give one value. With OPERATOR, those with OPERATOR in the name.
    The source may also be a folder that torch.npu.set_aoe filled; a model is an .onnx or .pt2 file, or
    module:callable.
    """
    from jumar.tune import this_machine
    from jumar.tune.bank.presence import look_up

    options = _options_apart(tuned_with, used_with)
    opened = open_layers(bank)
    entries, machine = opened.answers(), this_machine(device)
    found = [(name, work) for name, work in _works(source, input_shape) if operator is None or operator in name]
    lookups = [(name, look_up(work, machine, entries)) for name, work in found]
    if as_json:
        print_document(
            lookups=[
                {"name": name, "key": found.task.key, "status": found.status, "reason": found.reason,
                 "differences": [{"name": one.name, "asked": one.asked, "in_bank": one.in_bank}
                                 for one in found.differences]}
                for name, found in lookups
            ],
            must_agree=_must_agree(found for _, found in lookups),
            options=options.to_json()["agreement"] if options is not None else None,
        )  # fmt: skip
        return 0
    num_hits = sum(found.status != "miss" for _, found in lookups)
    what = "operators" if not any(found.task.operator == "graph" for _, found in lookups) else "graphs"
    print_table(
        f"{opened.name} knows {num_hits} of {len(lookups)} {what} of {source} on {machine}.",
        make_table(["Operator", "Bank", "Why"], [[name, found.status, found.reason] for name, found in lookups]),
    )
    for kind, names in _must_agree(found for _, found in lookups).items():
        click.echo(f"Another {kind}: these options must be the same in tuning and use: {', '.join(names)}.")
    if options is not None:
        from jumar.show import print_page
        from jumar.show.pages.options import options_page

        print_page(options_page(options))
    return 0


def _must_agree(lookups: Iterable[Lookup]) -> dict[str, list[str]]:
    """Return the kinds of property in which misses differ, each with the options that change it."""
    from jumar.tfadapter.options import names_that_change
    from jumar.tune.bank.agreement import kinds_of

    found = {kind for one in lookups if one.status == "miss" for kind in kinds_of(one.differences)}
    return {kind: names_that_change(kind) for kind in sorted(found)}


def _options_apart(tuned_with: str | None, used_with: str | None) -> OptionReport | None:
    """Compare two commands. Raises UsageError where only one is given, and InputError for what is none."""
    from jumar.base.errors import UsageError
    from jumar.tfadapter.checks.report import examine_options

    if tuned_with is None and used_with is None:
        return None
    if tuned_with is None or used_with is None:
        raise UsageError("--tuned-with and --used-with compare two commands; give both, or neither.")
    return examine_options([tuned_with], training=[used_with], look_for_paths=False)


def _works(source: str, input_shape: str) -> list[tuple[str, Work]]:
    """Return the operators of a recording, or the graphs of a model, by name."""
    from jumar.tune.graph.capture.apart import captured_apart
    from jumar.tune.graph.capture.source import is_graph_source
    from jumar.tune.model.process import temporary_folder
    from jumar.tune.search.tasks.source import open_source

    if is_graph_source(source):
        with TemporaryDirectory(prefix="jumar-why-miss-", dir=temporary_folder()) as folder:
            graphs = captured_apart(source, folder=Path(folder), input_shape=input_shape)
        return [(one.name, one.graph) for one in graphs]
    return [(use.name, use.task) for use in open_source(Path(source)).extraction.tasks]


def _known_of(bank: Bank, beginning: str) -> list[Known]:
    """Return what is known of the task with a key that begins so. Raises UsageError for none or several."""
    from jumar.base.errors import UsageError

    found = [one for one in bank.everything() if one.task.key.startswith(beginning.lower())]
    keys = {one.task.key for one in found}
    if len(keys) == 1:
        return found
    how_many = f"{len(keys)} operators of the bank have" if keys else "no operator of the bank has"
    raise UsageError(f'"{beginning}" must be the beginning of one key; {how_many} it. See `jumar bank list`.')
