"""`installed`: while it lasts, `npu_bridge` and `npu_device` can be imported, also in processes that are started."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jumar.tfadapter.bridge.state import STATE

SHIM = Path(__file__).parent / "import_shim"
PACKAGES = ("npu_bridge", "npu_device", "hccl")


@contextmanager
def installed(*, as_v1: bool, soc: str | None = None) -> Iterator[bool]:
    """Give a program the adapter. Yields whether it is the real one, which is left alone.

    With `as_v1` the name `tensorflow` means TensorFlow 1 (`tensorflow.compat.v1`), as programs of TFAdapter 1.x take
    it.
    """
    if any(find_spec(name) is not None for name in PACKAGES[:2]):
        yield True
        return
    STATE.soc = soc
    before, kept = os.environ.get("PYTHONPATH"), sys.modules.get("tensorflow")
    sys.path.append(str(SHIM))
    os.environ["PYTHONPATH"] = os.pathsep.join([*([before] if before else []), str(SHIM)])
    if as_v1:
        sys.modules["tensorflow"] = _as_v1()
    try:
        yield False
    finally:
        sys.path.remove(str(SHIM))
        if before is None:
            os.environ.pop("PYTHONPATH")
        else:
            os.environ["PYTHONPATH"] = before
        if kept is not None:
            sys.modules["tensorflow"] = kept


class _TensorFlow1(types.ModuleType):
    """`tensorflow` whose names are those of `tensorflow.compat.v1`, and of TensorFlow 2 where that has none."""

    def __init__(self, real: Any) -> None:
        super().__init__("tensorflow", real.__doc__)
        self.__dict__.update(
            {
                name: getattr(real, name)
                for name in ("__path__", "__spec__", "__file__", "__loader__")
                if hasattr(real, name)
            }
        )
        self.__dict__["_real"] = real
        self.__version__ = real.__version__

    def __getattr__(self, name: str) -> Any:
        real = self.__dict__["_real"]
        try:
            return getattr(real.compat.v1, name)
        except AttributeError:
            return getattr(real, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self.__dict__["_real"].compat.v1), *dir(self.__dict__["_real"])})


def _as_v1() -> types.ModuleType:
    import tensorflow

    tensorflow.compat.v1.disable_v2_behavior()
    STATE.tell("`import tensorflow` gives TensorFlow 1's names (tensorflow.compat.v1), as npu_bridge takes them")
    return _TensorFlow1(tensorflow)
