"""`torch_npu.testing.decorator`: one test for each dtype and format."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partialmethod, wraps
from typing import Any

import torch

__all__ = [
    "Dtypes",
    "Formats",
    "feed_data",
    "gen_op_input",
    "gen_ops_testcase",
    "instantiate_ops_tests",
    "instantiate_tests",
]


class Dtypes:
    """Decorator: run a test once for each dtype. Raises RuntimeError for none, or for what is no dtype."""

    def __init__(self, *args: torch.dtype) -> None:
        if not args:
            raise RuntimeError("No dtypes given")
        if not all(isinstance(value, torch.dtype) for value in args):
            raise RuntimeError(f"Unknown dtype in {args}")
        self.args = args

    def __call__(self, fn: Any) -> Any:
        """Return the test, marked."""
        fn.dtypes = self.args
        return fn


class Formats:
    """Decorator: run a test once for each device format, by number. Raises RuntimeError for none."""

    def __init__(self, *args: int) -> None:
        if not args:
            raise RuntimeError("No formats given")
        self.args = args

    def __call__(self, fn: Any) -> Any:
        """Return the test, marked."""
        fn.formats = self.args
        return fn


def feed_data(func: Callable[..., Any], new_name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """Return a test method of that name that calls `func` with these arguments."""

    @wraps(func)
    def test(self: Any) -> Any:
        return func(self, *args, **kwargs)

    test.__name__ = new_name
    return test


def instantiate_tests(arg: Any = None, **_kwargs: Any) -> Any:
    """Class decorator: replace each marked test by one for each of its dtypes and formats.

    A test gets each value in the parameter whose name contains `dtype` or `format`, and `device="npu"` where it
    has such a parameter. Raises RuntimeError where two parameters match.
    """
    for name, func in list(vars(arg).items()):
        marks = {"dtype": getattr(func, "dtypes", None), "format": getattr(func, "formats", None)}
        values = {key: value for key, value in marks.items() if value is not None}
        if not values:
            continue
        for chosen in itertools.product(*values.values()):
            data = dict(zip(values, chosen, strict=True))
            full = name + "".join(f"_{_shown(value)}" for value in data.values())
            setattr(arg, full, feed_data(func, full, **_arguments(func, data)))
        delattr(arg, name)
    return arg


def _shown(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _arguments(func: Callable[..., Any], data: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.getfullargspec(func).args
    found: dict[str, Any] = {"device": "npu"} if "device" in parameters else {}
    for key, value in data.items():
        matching = [name for name in parameters if key in name]
        if len(matching) > 1:
            raise RuntimeError(f"Multiple matches for {key}")
        if matching:
            found[matching[0]] = value
    return found


def gen_ops_testcase(cls: type, func: Any, name: str, keys: Iterable[str], value: Sequence[Any], op_info: Any) -> None:
    """Add a test of one operator, with these values, to a class."""
    data = dict(zip(keys, value, strict=True))
    full = f"{func.__name__}_{name}" + "".join(f"_{_shown(item)}" for item in data.values())
    test: Any = partialmethod(func, **data, op=op_info)
    for decorator in op_info.get_decorators(cls.__name__, func.__name__, "cpu", value[0], {}):
        test = decorator(test)
    setattr(cls, full, test)


def gen_op_input(testcase: str, func: Any, op_info: Any) -> dict[str, Any]:
    """Return dtypes and formats that a test runs an operator with: its own marks, else the operator's."""
    dtypes = getattr(func, "dtypes", op_info.dtypesIfNPU)
    if "test_variant_consistency_eager" in testcase:
        own = op_info.dtypesIfNPU
        dtypes = {torch.float32} if torch.float32 in own else {list(own)[-1]}
    return {"dtype": dtypes, "npu_format": getattr(func, "formats", op_info.formats)}


def instantiate_ops_tests(op_db: Iterable[Any]) -> Callable[[type], type]:
    """Return a class decorator that replaces each test by one for each operator, dtype and format."""

    def decorate(cls: type) -> type:
        for testcase in [name for name in dir(cls) if name.startswith("test_")]:
            func = getattr(cls, testcase)
            for op_info in op_db:
                data = gen_op_input(testcase, func, op_info)
                for value in itertools.product(*data.values()):
                    gen_ops_testcase(cls, func, op_info.name, data, value, op_info)
            delattr(cls, testcase)
        return cls

    return decorate
