"""The fixture that runs an example."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from example_runs import EXAMPLES, SMALL, TIMEOUT_S, Run, run_script, start_worker


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Run]]:
    """Run an example with the small options and more, or another script in its place. Each run is made once."""
    known: dict[Any, Run] = {}
    workers: dict[str, ProcessPoolExecutor] = {}
    spawn = multiprocessing.get_context("spawn")

    with ExitStack() as stack:

        def run(
            example: str,
            *options: str,
            kind: str = "cuda-stand-in",
            script: Path | None = None,
            folder: Path | None = None,
        ) -> Run:
            key = (example, options, kind, script, folder)
            if key not in known:
                if kind not in workers:
                    workers[kind] = stack.enter_context(ProcessPoolExecutor(1, spawn, start_worker, (kind,)))
                where = tmp_path_factory.mktemp(example) if folder is None else folder
                chosen = EXAMPLES / example / "train.py" if script is None else script
                done = workers[kind].submit(run_script, chosen, [*SMALL[example], *options], where)
                known[key] = done.result(timeout=TIMEOUT_S)
            return known[key]

        yield run
