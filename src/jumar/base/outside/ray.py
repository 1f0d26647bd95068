"""A Ray cluster: its address, the connection, and a function over items on its machines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, TypeVar, cast

from jumar.base.errors import InputError, UsageError
from jumar.base.process.pool import Lost

LOCAL = "local"
ADDRESS = re.compile(r"ray://[^\s/:]+:([0-9]{1,5})")
SETTINGS: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False, "ignore_reinit_error": False}

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def parse_address(text: str) -> str:
    """Return `local` or `ray://host:port` as it is. Raises UsageError for anything else, or where Ray is missing."""
    match = ADDRESS.fullmatch(text)
    if text != LOCAL and (match is None or not 0 < int(match[1]) < 65536):
        raise UsageError(f'"--cluster {text}" must be local or ray://HOST:PORT. Try --cluster ray://head:10001.')
    if find_spec("ray") is None:
        raise UsageError(f'"--cluster {text}" needs Ray, which is not installed. pip install "jumar[cluster]".')
    return text


def connected(address: str, num_cpus: int | None = None) -> Any:
    """Join the cluster at an address, or start one on this machine with `num_cpus`; return the module `ray`.

    Raises InputError in one sentence where it cannot be reached.
    """
    import ray

    settings = dict(SETTINGS)
    if address == LOCAL:  # named, so that Ray joins no cluster that runs here or that RAY_ADDRESS names
        settings |= {"num_cpus": num_cpus, "include_dashboard": False}
    try:
        ray.init(address, **settings)
    except (ConnectionError, ImportError, RuntimeError, ValueError, OSError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(
            f'the cluster at {address} cannot be reached: {reason}. Check the address, that "ray start --head" runs '
            "there, and that jumar[cluster] is installed here and there."
        ) from error
    return ray


def on_cluster(
    function: Callable[[ItemT], ResultT], items: Sequence[ItemT], address: str
) -> Iterator[tuple[int, ResultT | Lost]]:
    """Yield (index, `function(items[index])`) as they are done on the cluster's cores.

    `function` and the items must be picklable, and what they name must be there under the same path on each machine.
    A task whose machine was lost twice is `Lost`; what `function` raises is raised here. Raises as `connected`.
    """
    ray = connected(parse_address(address))
    try:
        task = ray.remote(max_retries=1)(_called)
        own = ray.put(function)
        futures = {task.remote(own, item): index for index, item in enumerate(items)}
        while futures:
            (done, *_), _ = ray.wait(list(futures), num_returns=1)
            index = futures.pop(done)
            try:
                yield index, cast("ResultT", ray.get(done))
            except ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from error
            except ray.exceptions.RayError as error:
                yield index, Lost(f"its machine was lost ({type(error).__name__})")
    finally:
        ray.shutdown()


def _called(function: Callable[[ItemT], ResultT], item: ItemT) -> ResultT:
    return function(item)
