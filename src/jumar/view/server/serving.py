"""`serve`: the server from its start to Ctrl-C. It listens on 127.0.0.1 alone."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

from jumar.base.errors import UsageError

HOST = "127.0.0.1"
PORT = 8765
TRIED = 50
"""Ports that are tried, from the one asked for on."""
_NEEDS = "this needs Starlette and Uvicorn, which are not installed here: pip install 'jumar[view]'."


def serve(folder: Path, *, port: int = PORT, open_browser: bool = True, tell: Callable[[str], None] = print) -> None:
    """Serve the workbench over a folder until Ctrl-C.

    `tell` gets what a person has to know, the address first. Raises InputError for what is no folder, UsageError where
    no port is free or a package is missing.
    """
    try:
        import uvicorn

        from jumar.view.server.app import application
        from jumar.view.server.guard import Guard
    except ModuleNotFoundError as error:
        if error.name not in {"starlette", "uvicorn"}:
            raise
        raise UsageError(_NEEDS) from error
    from jumar.view.bench import Bench

    bench = Bench.open(folder)
    with free_socket(port) as listening:
        guard = Guard(listening.getsockname()[1])
        if guard.port != port and port:
            tell(f"Port {port} is taken; this is port {guard.port}.")
        tell(f"Jumar's workbench over {bench.folder.root}:\n  {guard.address}\nCtrl-C ends it.")
        if open_browser:
            threading.Thread(target=webbrowser.open, args=(guard.address,), daemon=True).start()
        config = uvicorn.Config(
            application(bench, guard), http="h11", ws="none", lifespan="off", log_level="error", access_log=False,
            server_header=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        try:
            uvicorn.Server(config).run(sockets=[listening])
        except KeyboardInterrupt:  # Uvicorn has ended in order, and raises the signal again
            return


def free_socket(port: int) -> socket.socket:
    """Return a socket that listens on a port, or on the next one that is free; of 0 the system chooses.

    Raises UsageError where none of `TRIED` is free.
    """
    for number in range(port, min(port + TRIED, 1 << 16)) if port else (0,):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, number))
            listening.listen(64)
        except OSError:
            listening.close()
        else:
            return listening
    last = min(port + TRIED, 1 << 16) - 1
    raise UsageError(f'"--port {port}" must be a free port; those to {last} are taken or not allowed. Try --port 0.')
