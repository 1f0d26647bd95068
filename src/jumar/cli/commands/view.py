"""`jumar view`: the workbench over a folder, in the browser."""

from __future__ import annotations

from pathlib import Path

import click

from jumar.cli.main import Command

PORT = 8765


@click.command(cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), default=Path(), required=False)
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, metavar="N",
              help="Port to listen on; the next free one where it is taken, any free one for 0.")  # fmt: skip
@click.option("--no-browser", is_flag=True, help="Print the address and open no browser.")
def command(*, folder: Path, port: int, no_browser: bool) -> int:
    """Look at everything that Jumar left in FOLDER: ports, recordings, comparisons, profiles, tuning, banks, reports.

    A server on this machine alone shows it in the browser, and new results as they appear. Two recordings are compared
    by choosing them. Nothing in FOLDER is changed. Ctrl-C ends the server.

    Example: jumar view runs
    """
    from jumar.view import serve

    serve(folder, port=port, open_browser=not no_browser, tell=lambda text: click.echo(text, err=True))
    return 0
