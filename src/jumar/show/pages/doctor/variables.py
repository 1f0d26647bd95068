"""What `jumar doctor` prints of environment variables: those that are set, and `--explain NAME`."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.advise.doctor.variables import SetVariable, Variable
from jumar.show.blocks.page import Action, Column, KeyValues, Page, Section, Table, Verdict


def variables_section(found: Sequence[SetVariable]) -> Section:
    """Return the section of the variables that are set: present value, meaning, and what speaks against the value."""
    columns = [
        Column(title="Variable", code=True),
        Column(title="Value", code=True),
        Column(title="What it is"),
        Column(title="Default"),
        Column(title="Note"),
    ]
    rows = [
        (one.variable.name, _short(one.value), one.variable.meaning, one.variable.default, one.complaint)
        for one in found
    ]
    return Section(title="Environment variables that are set", blocks=[Table(columns=columns, rows=rows)])


def variable_page(variable: Variable, value: str | None) -> Page:
    """Return the page of one environment variable, with its value here."""
    headline = variable.meaning
    here = "It is not set here." if value is None else f"Here it is {value!r}."
    rows = [("Values", variable.values_text), ("Default", variable.default), ("Versions", variable.versions_text),
            ("Instead", variable.instead), ("Source", variable.source)]  # fmt: skip
    actions = [Action(title=f"Use {variable.instead} instead.")] if variable.instead else []
    return Page(
        title=variable.name,
        verdict=Verdict(status="attention" if variable.until else "fine", headline=headline, details=[here]),
        actions=actions,
        sections=[Section(title="Facts", blocks=[KeyValues(items=[(key, text) for key, text in rows if text])])],
    )


def _short(value: str) -> str:
    return value if len(value) <= 60 else value[:59] + "…"
