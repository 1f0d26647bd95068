"""`torch.utils.dumper`: inputs and outputs of a step's operators in one HDF5 file; operators run from such a file."""

from __future__ import annotations

import contextlib
import importlib
import os
import warnings
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError, UsageError
from jumar.npu.core.state import STATE
from jumar.npu.dump import config
from jumar.npu.dump.calls import OperatorCall, observe
from jumar.npu.dump.config import SIDES
from jumar.npu.dump.debug import overflowing
from jumar.npu.dump.folder import DumpFolder, file_name
from jumar.npu.numerics import overflow
from jumar.npu.numerics.overflow import Overflow

ACL_FILE = "acl.json"


class dumper:  # the name is torch.utils'
    """Collect operators of the npu within a block.

        with torch.utils.dumper(use_dump=True, dump_path="model_npu.h5"):
            model(x).sum().backward()

    - `use_dump`: write inputs and outputs of every operator to the file `dump_path`, when the block ends.
    - `load_file_path`: give the operators the inputs recorded in that file, call by call; with `use_dump` the
      outputs that follow are written, with `use_load` alone they are only computed.
    - `check_overflow`: write the tensors of the first operator that overflows to a file in the folder
      `dump_path` (or to it, where it ends in `.h5`) and warn; `overflows` lists all that did.
    - `load_with_acl_dump`: with `use_load`, also dump the operators that were fed, as `acl.json` in the
      current folder asks.

    In a distributed run every rank but the first adds its number to the name of the file. Raises UsageError
    for combinations that make no sense, InputError for a file that cannot be read, OutputError on leaving
    where the file cannot be written; `check_overflow` raises DeviceError while data of operators is dumped.
    """

    def __init__(
        self,
        use_dump: bool = False,
        use_load: bool = False,
        dump_path: str | Path = "",
        load_file_path: str | Path = "",
        load_with_acl_dump: bool = False,
        check_overflow: bool = False,
    ) -> None:
        if not (use_dump or use_load or check_overflow):
            raise UsageError("dumper must do something; got none of use_dump, use_load and check_overflow: set one.")
        if use_dump and check_overflow:
            raise UsageError("use_dump and check_overflow must not both be on; got both: turn one off.")
        if (use_dump or check_overflow) and not str(dump_path):
            raise UsageError("dumper must know where to write; got no dump_path: give one, such as model_npu.h5.")
        if use_load and not str(load_file_path):
            raise UsageError("use_load must have a file; got no load_file_path: give what dumper wrote.")
        if load_with_acl_dump and not use_load:
            raise UsageError("load_with_acl_dump must be used with use_load; got it alone: set use_load=True.")
        self.use_dump, self.check_overflow, self.load_with_acl_dump = use_dump, check_overflow, load_with_acl_dump
        self.dump_path, self.load_file_path = str(dump_path), str(load_file_path)
        self.overflows: list[Overflow] = []
        """Operators that overflowed, in order, with `check_overflow`."""
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> dumper:
        """Begin."""
        with contextlib.ExitStack() as stack:
            recorded = _hdf5().Recorded(Path(self.load_file_path)) if self.load_file_path else None
            if recorded is not None:
                stack.callback(recorded.close)
            if self.check_overflow:
                mode: overflow.Mode = "all" if STATE.profile.is_aclnn_default else "aicore_overflow"
                stack.enter_context(overflowing(mode, self._overflowed))
            stack.enter_context(observe(self._observer(stack), recorded.feed if recorded is not None else None))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End, and write what was collected."""
        self._stack.close()

    def _observer(self, stack: contextlib.ExitStack) -> _Write:
        write = _Write(self.load_with_acl_dump)
        if self.use_dump:
            calls = write.calls = _hdf5().Calls()
            stack.callback(lambda: calls.write(_of_rank(Path(self.dump_path))))
        return write

    def _overflowed(self, call: OperatorCall, what: Overflow) -> None:
        if what.kind != "aicore":
            return
        self.overflows.append(what)
        if len(self.overflows) > 1:
            return
        calls = _hdf5().Calls()
        calls.add(call)
        path = Path(self.dump_path)
        file = _of_rank(path if path.suffix == ".h5" else path / f"{file_name(what.operator)}.h5")
        calls.write(file)
        warnings.warn(f"operator {what.operator} overflowed; its tensors are in {file}.", stacklevel=2)


class _Write:
    """What is done with each call."""

    def __init__(self, with_acl_dump: bool) -> None:
        self.calls: Any = None
        self._folder: DumpFolder | None = None
        if with_acl_dump:
            if not Path(ACL_FILE).is_file():
                raise InputError(f"load_with_acl_dump must find {ACL_FILE} in the current folder; got none: write it.")
            settings = config.read(ACL_FILE)
            self._folder, self._sides = DumpFolder(settings.path), SIDES[settings.mode]

    def __call__(self, call: OperatorCall) -> None:
        if self.calls is not None:
            self.calls.add(call)
        if self._folder is not None and call.is_fed:
            self._folder.write(call, self._sides)


def _of_rank(file: Path) -> Path:
    rank = os.environ.get("RANK", "0")
    return file if rank == "0" else file.with_stem(f"{file.stem}-rank-{rank}")


def _hdf5() -> Any:
    """Return the module that writes HDF5: h5py takes a tenth of a second that most runs need not spend."""
    return importlib.import_module("jumar.npu.dump.hdf5")
