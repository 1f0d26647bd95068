"""The workbench over a folder, answering as a browser asks."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="the workbench needs jumar[view]")

from jumar.view.bench import Bench  # noqa: E402 - after the check that the packages are here
from jumar.view.server.app import application  # noqa: E402
from jumar.view.server.guard import Guard  # noqa: E402
from jumar.view.server.serving import free_socket  # noqa: E402


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True)
class Workbench:
    bench: Bench
    guard: Guard

    def ask(self, path: str, *, method: str = "GET", cookie: str | None = None, **headers: str) -> Reply:
        """Ask as a browser that was let in, unless another cookie is given."""
        sent = {"Cookie": f"{self.guard.cookie}={self.guard.token if cookie is None else cookie}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.guard.port, timeout=60)
        connection.request(method, path, headers=sent)
        answer = connection.getresponse()
        reply = Reply(
            answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
        )
        connection.close()
        return reply

    def settled(self, path: str) -> Reply:
        """Ask until what is calculated in the background is there."""
        end = time.monotonic() + 60
        while "data-job=" in (reply := self.ask(path)).text:
            assert time.monotonic() < end, "the job does not end"
            time.sleep(0.05)
        return reply

    def id(self, place: str) -> str:
        """Return the id of the result at a place."""
        return next(item.id for item in self.bench.catalogue.look(fresh=True).items if item.place == place)

    def page(self, place: str, rest: str = "") -> Reply:
        return self.settled(f"/item/{self.id(place)}{rest}")


def served(folder: Path) -> Iterator[Workbench]:
    bench = Bench.open(folder)
    with free_socket(0) as listening:
        guard = Guard(listening.getsockname()[1])
        config = uvicorn.Config(application(bench, guard), http="h11", ws="none", lifespan="off", log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield Workbench(bench, guard)
        server.should_exit = True
        thread.join(10)
