"""`installed`: while it lasts, `npu_bridge` and `npu_device` can be imported, also in processes that are started."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jumar.tfadapter.bridge.state import STATE
from jumar.tfadapter.bridge.watch import Watch, say_overflow

SHIM = Path(__file__).parent / "import_shim"
PACKAGES = ("npu_bridge", "npu_device", "hccl")
ENVIRONMENT = "JUMAR_TENSORFLOW_PROGRAM"
"""`PID SOC` for processes that the program starts: which one is the first, and the chip, if one was named."""


@contextmanager
def installed(*, as_v1: bool, soc: str | None = None) -> Iterator[bool]:
    """Give a program the adapter. Yields whether it is the real one, which is left alone.

    With `as_v1` the name `tensorflow` means TensorFlow 1 (`tensorflow.compat.v1`), as programs of TFAdapter 1.x take
    it.
    """
    real = [name for name in PACKAGES[:2] if find_spec(name) is not None]
    if real:
        STATE.tell(f"{' and '.join(real)} of this environment is used: Jumar checks and changes nothing")
        yield True
        return
    STATE.soc = soc
    before, kept = os.environ.get("PYTHONPATH"), sys.modules.get("tensorflow")
    sys.path.append(str(SHIM))
    os.environ["PYTHONPATH"] = os.pathsep.join([*([before] if before else []), str(SHIM)])
    os.environ[ENVIRONMENT] = f"{os.getpid()} {soc or ''}"
    if as_v1:
        sys.modules["tensorflow"] = _as_v1()
    try:
        yield False
    finally:
        sys.path.remove(str(SHIM))
        os.environ.pop(ENVIRONMENT, None)
        if before is None:
            os.environ.pop("PYTHONPATH")
        else:
            os.environ["PYTHONPATH"] = before
        if kept is not None:
            sys.modules["tensorflow"] = kept


def watch_child(*, takes_v1: bool) -> None:
    """Watch this process if a program under `jumar run` has started it; its import of the adapter calls this.

    With `takes_v1` the names of `tensorflow` become TensorFlow 1's.
    """
    pid, _, soc = os.environ.get(ENVIRONMENT, "").partition(" ")
    if not pid or pid == str(os.getpid()) or STATE.is_watched:
        return
    STATE.is_watched = True
    STATE.soc = soc or None
    if takes_v1:
        _become_v1()
    watch = Watch()
    watch.start()
    atexit.register(lambda: say_overflow(watch.dumpers))


def _become_v1() -> None:
    """Give the module that the program has imported already TensorFlow 1's names."""
    import tensorflow

    v1 = tensorflow.compat.v1
    _behave_as_v1(v1)
    _take_keras_1()
    tensorflow.__path__ = [*v1.__path__, *tensorflow.__path__]
    tensorflow.__dict__.update({name: getattr(v1, name) for name in dir(v1) if not name.startswith("_")})


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
        self.__path__ = [*real.compat.v1.__path__, *real.__path__]
        """Where `import tensorflow.train` and the like find TensorFlow 1's names."""

    def __getattr__(self, name: str) -> Any:
        real = self.__dict__["_real"]
        if name == "contrib":
            raise AttributeError("tf.contrib ended with TensorFlow 1.15; this is TensorFlow " + real.__version__)
        try:
            return getattr(real.compat.v1, name)
        except AttributeError:
            return getattr(real, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self.__dict__["_real"].compat.v1), *dir(self.__dict__["_real"])})


def _as_v1() -> types.ModuleType:
    import tensorflow

    _behave_as_v1(tensorflow.compat.v1)
    STATE.tell("`import tensorflow` gives TensorFlow 1's names (tensorflow.compat.v1), as npu_bridge takes them")
    _take_keras_1()
    return _TensorFlow1(tensorflow)


def _behave_as_v1(v1: Any) -> None:
    """Take TensorFlow 1's behaviour, but for its variables.

    NOTE: what was read from one of those and fetched beside the training operator is its value after the step.
    """
    v1.disable_v2_behavior()
    v1.enable_resource_variables()


def _take_keras_1() -> None:
    """Let `import tensorflow.keras` give the names of TensorFlow 1, where Keras has them: Keras 3 has not."""
    if all(find_spec(name) is not None for name in ("keras", "keras.api", "keras.api._v1")):
        sys.modules["tensorflow.keras"] = importlib.import_module("keras.api._v1.keras")
