"""`python -m jumar.testing.scaffold KIND NAME [-o DIR]`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from jumar.base.errors import JumarError
from jumar.testing.scaffold import TARGETS, write


@click.command()
@click.argument("kind", type=click.Choice(list(TARGETS)), metavar="KIND")
@click.argument("name", metavar="NAME")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path(), help="Folder to write NAME into.")
def main(kind: str, name: str, output: Path) -> None:
    """Write the distribution NAME, which adds a part to Jumar, with its tests.

    KIND is engine, rule, dump-format, soc-profile, npu-operator, doctor-check, doctor-entries or export-format.

    Example: python -m jumar.testing.scaffold rule acme-rules
    """
    try:
        place = write(kind, name, output)
    except JumarError as error:
        click.echo(f"jumar: {error}", err=True)
        sys.exit(2)
    click.echo(f"{place} is written. Next: cd {place} && pytest, then pip install -e .")


if __name__ == "__main__":
    main(prog_name="python -m jumar.testing.scaffold")
