"""From an older schema to this one, within the transaction that the caller is in.

A bank is migrated when it is first written to: looking into an old one, or one that cannot be written, changes
nothing and works. Version 2 has graphs beside operator calls, and the structure of each for nearest-shape transfer.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from jumar.tune.bank.tables import SCHEMA_VERSION, MetaRow, TaskRow
from jumar.tune.structure import structure_of
from jumar.tune.work import work_from_json

STRUCTURES_SINCE = 2


def migrate(session: Session, version: int) -> None:
    """Bring the tables from `version` to `SCHEMA_VERSION`. What is in a damaged row stays as it is."""
    if version < STRUCTURES_SINCE:
        session.execute(sa.text("ALTER TABLE tasks ADD COLUMN structure VARCHAR DEFAULT '' NOT NULL"))
        session.execute(sa.text("CREATE INDEX ix_tasks_structure ON tasks (structure)"))
        for key, spec in session.execute(sa.select(TaskRow.key, TaskRow.spec)).all():
            try:
                structure = structure_of(work_from_json(spec))
            except (KeyError, TypeError, ValueError, AttributeError):
                continue
            session.execute(sa.update(TaskRow).where(TaskRow.key == key).values(structure=structure))
    session.execute(sa.update(MetaRow).where(MetaRow.name == "schema_version").values(value=str(SCHEMA_VERSION)))
