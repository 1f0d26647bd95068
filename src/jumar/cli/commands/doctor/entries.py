"""`jumar doctor --explain CODE`, `--test-entries` and `--learn LOG`: the entries of known errors, yours too."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import InputError, OutputError, UsageError
from jumar.cli.answer import print_document

if TYPE_CHECKING:
    from jumar.advise.doctor.variables import Variable
    from jumar.base.rules import Rule

EXIT_FAULTS = 1


def tell_entries(entries: Sequence[Path], *, explain: str | None, learn: str | None, test: bool, as_json: bool) -> int:
    """Do the one of the three works that was asked for; `entries` are folders with the user's own entries."""
    if explain is not None:
        return _explain(explain, entries, as_json=as_json)
    if learn is not None:
        return _learn(Path(learn), entries, as_json=as_json)
    return _test(entries, as_json=as_json) if test else 0


def _explain(text: str, entries: Sequence[Path], *, as_json: bool) -> int:
    from jumar.advise.doctor.entries import known_errors
    from jumar.advise.doctor.entries.explain import explain
    from jumar.advise.doctor.variables import variable_named
    from jumar.base.rules import all_rules
    from jumar.show import print_page
    from jumar.show.pages.doctor.entries import explain_page

    if not text.strip():
        raise UsageError("--explain takes a code, a name, a variable or a line of a log. Give one.")
    rule = all_rules().find(text.strip())
    if rule is not None:
        return _explain_rule(rule, as_json=as_json)
    variable = variable_named(text.strip())
    if variable is not None:
        return _explain_variable(variable, as_json=as_json)
    answer = explain(text, known_errors(entries))
    if as_json:
        print_document(**answer.to_json())
    else:
        print_page(explain_page(answer))
    return 0 if answer.entries else EXIT_FAULTS


def _explain_rule(rule: Rule, *, as_json: bool) -> int:
    from jumar.show.pages.rules import document, print_rule

    if as_json:
        print_document(rule=document(rule))
    else:
        print_rule(rule)
    return 0


def _explain_variable(variable: Variable, *, as_json: bool) -> int:
    from jumar.show import print_page
    from jumar.show.pages.doctor.variables import variable_page

    value = os.environ.get(variable.name)
    if as_json:
        print_document(variable=variable.to_json(), value=value)
    else:
        print_page(variable_page(variable, value))
    return 0


def _test(entries: Sequence[Path], *, as_json: bool) -> int:
    from dataclasses import asdict

    from jumar.advise.doctor.entries.check import check_entries
    from jumar.advise.doctor.entries.store import load_entries
    from jumar.show import print_page
    from jumar.show.pages.doctor.entries import check_page

    loaded = load_entries(entries)
    signatures = loaded.table.signatures
    faults = check_entries(signatures)
    if as_json:
        print_document(faults=[asdict(fault) for fault in faults], num_checked=len(signatures), notes=loaded.notes)
    else:
        print_page(check_page(len(signatures), faults, loaded.notes))
    return EXIT_FAULTS if faults else 0


def _learn(log: Path, entries: Sequence[Path], *, as_json: bool) -> int:
    from dataclasses import asdict

    from jumar.advise.doctor.entries.check import ordinary_lines
    from jumar.advise.doctor.entries.learn import propose
    from jumar.advise.doctor.entries.store import load_entries
    from jumar.advise.doctor.logs.diagnosis import diagnose_logs
    from jumar.advise.doctor.logs.uses.unlisted import first_unlisted
    from jumar.base.files import write_result
    from jumar.show import print_page
    from jumar.show.pages.doctor.entries import learned_page

    if len(entries) > 1:
        raise UsageError("--learn writes into one folder, and --entries names several. Name the one to write to.")
    folders = [folder for folder in entries if folder.is_dir()]
    hit = first_unlisted(diagnose_logs([log], table=load_entries(folders).table))
    if hit is None:
        raise InputError(f"{log} holds no error that Jumar does not explain. See `jumar doctor {log}`.")
    proposal = propose(hit.text, code=hit.code, ordinary=ordinary_lines())
    written = entries[0] / f"{proposal.name}.toml" if entries else None
    if written is not None and written.exists():
        raise OutputError(f"{written} exists and is not replaced. Fill it in, or give another folder with --entries.")
    if written is not None:
        write_result(written, proposal.to_toml())
    if as_json:
        print_document(
            entry=asdict(proposal), toml=proposal.to_toml(), line=hit.line, written=str(written) if written else None
        )
    else:
        print_page(learned_page(proposal, f"{hit.path}:{hit.line}", written))
    return 0
