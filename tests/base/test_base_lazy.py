"""`dir` of a package whose names are loaded later shows all of its public names, and loads none."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jumar.base.lazy import after_import, spec_behind

PACKAGES = [
    *("jumar", "jumar.capture", "jumar.comparison.replay", "jumar.convert", "jumar.device", "jumar.export"),
    *("jumar.npu", "jumar.port", "jumar.recording", "jumar.show", "jumar.testing", "jumar.tune"),
]


@pytest.mark.parametrize("name", PACKAGES)
def test_dir_has_every_public_name(name: str) -> None:
    package = importlib.import_module(name)
    assert set(package.__all__) <= set(dir(package))


@pytest.mark.slow
def test_dir_imports_no_torch() -> None:
    code = "import sys, jumar; assert {'record', 'compare'} <= set(dir(jumar)); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class _Changing:
    """A finder that passes on what those behind it find, and notes the name."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        self.asked.append(name)
        return spec_behind(self, name, path, target)


def test_finders_that_change_what_others_find_ask_only_those_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _Changing(), _Changing()
    monkeypatch.setattr(sys, "meta_path", [first, second, *sys.meta_path])
    found = importlib.util.find_spec("this")
    assert found is not None
    assert found.name == "this"
    assert importlib.util.find_spec("no_such_module_anywhere") is None
    assert first.asked == ["this", "no_such_module_anywhere"]


def test_a_module_is_changed_right_after_its_import_and_at_once_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("changed_late", "changed_now"):
        (tmp_path / f"{name}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    now = importlib.import_module("changed_now")

    def change(module: Any) -> None:
        module.value += 1

    after_import({"changed_now": change, "changed_late": change})
    after_import({"changed_late": change})
    assert (now.value, importlib.import_module("changed_late").value) == (2, 3)
