"""From one device to many (`distributed -m MAIN -t MODEL`).

`plan` makes the whole conversion of the entry script, or says why it cannot; each rule yields its part.
"""

from __future__ import annotations

from types import ModuleType

from jumar.migrate.rules.distributed import (
    already_distributed,
    batch_size_of_one_rank,
    device_by_number,
    not_distributable,
    output_of_every_rank,
    single_process_training,
    unaveraged_gradients,
    unshared_training_data,
    value_of_one_rank,
    work_of_every_rank,
)

MODULES: tuple[ModuleType, ...] = (
    already_distributed,
    not_distributable,
    single_process_training,
    unshared_training_data,
    unaveraged_gradients,
    device_by_number,
    output_of_every_rank,
    value_of_one_rank,
    batch_size_of_one_rank,
    work_of_every_rank,
)
"""Modules with a `RULE` and a `check`, in the order they run."""
