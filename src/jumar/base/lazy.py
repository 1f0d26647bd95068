"""Names of a package that are loaded when first used, so that importing the package stays fast."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jumar.base.collector import collector_at_rest


def loader(package: str, names: Sequence[str], homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of `package`, whose public names are `names`.

    `homes` maps each name that is loaded later to the module that defines it. The function returned
    raises AttributeError, with the names there are, for any other.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(names)}")
        with collector_at_rest():
            home = importlib.import_module(homes[name])
        return getattr(home, name)

    return load
