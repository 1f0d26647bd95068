"""Run by an interpreter that has MindSpore: times pipelines in turn, and prints one JSON line a round.

It imports nothing of Jumar, which that interpreter need not have. Standard input has the pipelines, the number of
rounds and the most seconds of one round.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def main() -> None:
    """Time the pipelines that standard input names."""
    asked = json.load(sys.stdin)
    import mindspore.dataset as ds

    workers, prefetch = ds.config.get_num_parallel_workers(), ds.config.get_prefetch_size()
    say({"defaults": [workers, prefetch]})
    trees = [
        with_defaults(tree, workers, prefetch) if tree.pop("use_defaults", False) else tree for tree in asked["trees"]
    ]
    datasets = []
    for place, tree in enumerate(trees):
        try:
            datasets.append(ds.deserialize(input_dict=tree))
        except Exception as error:  # noqa: BLE001 - whatever MindSpore raises is told
            say({"failed": place, "why": str(error)})
            return
    for number in range(asked["rounds"] + 1):  # the first one reads files into the system's cache
        order = range(len(datasets)) if number % 2 else reversed(range(len(datasets)))
        for place in order:
            try:
                batches, seconds, is_whole = timed(datasets[place], asked["seconds"])
            except Exception as error:  # noqa: BLE001 - whatever MindSpore raises is told
                say({"failed": place, "why": str(error)})
                return
            say({"round": number, "pipeline": place, "batches": batches, "seconds": seconds, "whole": is_whole})


def with_defaults(tree: dict[str, Any], workers: int, prefetch: int) -> dict[str, Any]:
    """Give every operator that has settings those of MindSpore."""
    for name, value in (("num_parallel_workers", workers), ("connector_queue_size", prefetch)):
        if name in tree:
            tree[name] = value
    for child in tree.get("children", []):
        with_defaults(child, workers, prefetch)
    return tree


def timed(dataset: Any, most: float) -> tuple[int, float, bool]:
    """Return the batches of an epoch, its seconds, and whether it came to its end."""
    began, batches = time.perf_counter(), 0
    for _ in dataset.create_tuple_iterator(num_epochs=1, output_numpy=True):
        batches += 1
        if time.perf_counter() - began > most:
            return batches, time.perf_counter() - began, False
    return batches, time.perf_counter() - began, True


def say(what: dict[str, Any]) -> None:
    """Print what Jumar reads."""
    sys.stdout.write("JUMAR " + json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
