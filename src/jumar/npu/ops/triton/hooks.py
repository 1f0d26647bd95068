"""Change Triton when a program imports it; importing it here would cost every other program a second."""

from __future__ import annotations

from jumar.base.lazy import after_import
from jumar.npu.ops.triton import driver, launch


def install() -> None:
    """Change Triton now or when it is imported. Called once, when the device comes up."""
    after_import(
        {
            "triton.runtime.jit": launch.compile_nothing,
            "triton.runtime.interpreter": launch.watch_interpreter,
            "triton.runtime.driver": lambda module: driver.activate(module, driver.npu_driver()),
        }
    )
