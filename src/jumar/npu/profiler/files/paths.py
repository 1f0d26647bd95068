"""The folder of a profile: `<worker>_<time>_ascend_pt` in the folder that the handler, or the environment, names."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from jumar.npu.profiler.messages import warn

OUTPUT = "ASCEND_PROFILER_OUTPUT"
FRAMEWORK = "FRAMEWORK"
_MAX_WORKER_NAME = 226


@dataclass(slots=True)
class PathCreator:
    """The folder of the next profile. One for the process, as the vendor has it: the handler sets it."""

    worker_name: str | None = None
    folder: Path | None = None
    export_only: bool = False
    """Nothing but an export was asked for, which is made from memory: there is no folder."""

    def configure(
        self, worker_name: str | None = None, dir_name: str | None = None, *, export_only: bool = False
    ) -> None:
        """Take what `tensorboard_trace_handler` was given."""
        self.export_only = export_only
        self.worker_name, self.folder = None, None
        if isinstance(worker_name, str) and 0 < len(worker_name) < _MAX_WORKER_NAME:
            self.worker_name = worker_name
        elif worker_name is not None:
            warn("Invalid parameter worker_name, reset it to default.")
        if isinstance(dir_name, str) and dir_name:
            self.folder = Path(dir_name).resolve()
        elif dir_name is not None:
            warn("Invalid parameter dir_name, reset it to default.")

    def create(self) -> Path | None:
        """Make the folder of a profile that begins now and return it; None where nothing is to be kept."""
        parent = self._parent()
        if parent is None:
            return None
        worker = f"{self.worker_name or socket.gethostname()}_{os.getpid()}"
        now = datetime.now(tz=timezone.utc).astimezone().strftime("%Y%m%d%H%M%S%f")[:-3]
        path = parent / f"{worker}_{now}_ascend_pt"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _parent(self) -> Path | None:
        if self.folder is not None:
            return self.folder
        work = os.environ.get("ASCEND_WORK_PATH")
        if work:
            return Path(work).resolve() / "profiling_data"
        return None if self.export_only else Path.cwd()


CREATOR = PathCreator()
