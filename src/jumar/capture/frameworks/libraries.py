"""`LibraryCallback`: one of Lightning's or Hugging Face's own callbacks, made without importing the library before."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, TypeVar

from jumar.base.errors import UsageError

LIGHTNING = (("lightning.pytorch", "Callback"), ("pytorch_lightning", "Callback"))
HUGGING_FACE = (("transformers.trainer_callback", "TrainerCallback"), ("transformers", "TrainerCallback"))

Self = TypeVar("Self", bound="LibraryCallback")


class LibraryCallback:
    """Takes a folder and options. An instance is one of the library's callbacks too.

    Raises UsageError when the library is not installed.
    """

    LIBRARIES: tuple[tuple[str, str], ...] = ()
    """Modules that define the base class, and its name; the first that is imported or can be."""

    def __new__(cls: type[Self], *args: Any, **kwargs: Any) -> Self:  # noqa: ARG004 - __init__ takes them
        """Return an instance that is one of the library's callbacks too."""
        return super().__new__(_joined(cls, _base_of(cls)))

    def __init__(self, out: str | os.PathLike[str], **options: Any) -> None:
        super().__init__()
        self._given = (os.fspath(out), options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to spawned ranks as the arguments."""
        return _again, (type(self).__mro__[1], *self._given)


def barrier() -> None:
    """Wait for the other ranks, where there are any."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.barrier()


def _base_of(cls: type[LibraryCallback]) -> type:
    """Return the library's callback class: of the library that the program has imported, else of one there is."""
    names = cls.LIBRARIES
    for name, attribute in sorted(names, key=lambda pair: pair[0] not in sys.modules):
        try:
            return getattr(importlib.import_module(name), attribute)  # type: ignore[no-any-return]
        except ImportError:
            continue
    library = names[0][0].split(".", maxsplit=1)[0]
    raise UsageError(f"{cls.__name__} needs {library}, which cannot be imported here. Try pip install {library}.")


_made: dict[tuple[type, type], type[LibraryCallback]] = {}


def _joined(cls: type[Self], base: type) -> type[Self]:
    """Return a class that is both."""
    if issubclass(cls, base):
        return cls
    if (cls, base) not in _made:
        _made[cls, base] = type(cls.__name__, (cls, base), {"__module__": cls.__module__, "__doc__": cls.__doc__})
    return _made[cls, base]  # type: ignore[return-value]


def _again(cls: type[LibraryCallback], out: str, options: dict[str, Any]) -> LibraryCallback:
    return cls(out, **options)
