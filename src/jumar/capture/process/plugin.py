"""A function that every process of a run calls before the script starts, named by the environment."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from jumar.base.errors import UsageError

ENVIRONMENT = "JUMAR_RUN_PLUGIN"
"""`module:function`, called without argument once the device is up and before anything is observed."""


def call_plugin(environ: Mapping[str, str]) -> None:
    """Call the function that `environ` names, if any. Raises UsageError for another form, and whatever the function
    raises."""
    target = environ.get(ENVIRONMENT)
    if not target:
        return
    module, _, function = target.partition(":")
    if not module or not function:
        raise UsageError(f"{ENVIRONMENT} must be module:function; got {target!r}. Unset it to go on.")
    getattr(importlib.import_module(module), function)()
