"""Parts of other distributions: found once and late, refused with one sentence, never in the way of Jumar's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from jumar.base.plugins import GROUPS, LOG, Group, instance_of

DOOR = GROUPS["soc-profile"]
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a distribution that offers strings: `install("acme", first="'a'")`."""

    def write(name: str, **parts: str) -> None:
        folder = tmp_path / name
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        module = f"{name}_parts"
        (folder / f"{module}.py").write_text("\n".join(f"{key} = {value}" for key, value in parts.items()), "utf-8")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
        lines = "\n".join(f"{key} = {module}:{key}" for key in parts)
        (info / "entry_points.txt").write_text(f"[{DOOR}]\n{lines}\n", "utf-8")
        monkeypatch.syspath_prepend(str(folder))

    yield write
    group().forget()
    for name in [name for name in sys.modules if name.endswith("_parts")]:
        del sys.modules[name]


def group(*taken: str) -> Group[str]:
    made = Group("soc-profile", instance_of(str), lambda part: (part,), lambda: taken)
    made.forget()
    return made


def test_parts_come_in_the_order_of_their_names(install: Install) -> None:
    install("zeta", a="'first'")
    install("alpha", b="'second'", c="'third'")
    assert group().parts() == ("first", "second", "third")


def test_without_a_distribution_there_are_none() -> None:
    assert group().parts() == ()


def test_a_part_that_cannot_be_imported_is_named_and_the_others_stay(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install("broken", bad="1 / 0")
    install("sound", good="'good'")
    assert group().parts() == ("good",)
    (record,) = caplog.records
    assert record.name == LOG
    assert record.getMessage() == (
        f'jumar: broken 1.0 offers "bad" as {DOOR}, which cannot be used (ZeroDivisionError: division by zero). '
        "Mend or uninstall broken."
    )


def test_what_is_of_another_type_is_refused(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    install("numbers", one="1")
    assert group().parts() == ()
    assert "it names a int and must name a str" in caplog.text


def test_a_part_without_a_name_is_refused(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    install("nameless", x="'part'")
    found = Group("soc-profile", instance_of(str), lambda part: (part.name,))  # type: ignore[attr-defined]
    found.forget()
    assert found.parts() == ()
    assert "AttributeError: 'str' object has no attribute 'name'" in caplog.text


def test_a_name_of_jumars_own_is_refused(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    install("copycat", x="'Ascend910A'", y="'other'")
    assert group("Ascend910A").parts() == ("other",)
    assert "Jumar has a part of the name Ascend910A" in caplog.text


def test_two_parts_of_one_name_are_both_refused(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    install("one", x="'same'")
    install("two", y="'same'", z="'other'")
    assert group().parts() == ("other",)
    assert [record.getMessage().partition(" offers")[0] for record in caplog.records] == [
        "jumar: one 1.0",
        "jumar: two 1.0",
    ]
    assert "two 1.0 has a part of the name same, too" in caplog.text


def test_the_sentence_is_given_once(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    install("broken", bad="1 / 0")
    found = group()
    assert found.parts() == found.parts() == ()
    assert len(caplog.records) == 1


def test_the_sentence_stands_on_stderr_of_a_program_that_sets_up_no_logging(tmp_path: Path) -> None:
    info = tmp_path / "lost-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lost\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[{GROUPS['rule']}]\nx = no_such_module\n", "utf-8")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from jumar.cli.main import main; main(['rule'])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr.startswith('jumar: lost 1.0 offers "x" as jumar.rules, which cannot be used (ModuleNotFound')
    assert done.stderr.count("\n") == 1
    assert "JM101" in done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["rule", "JM101"], ["doctor", "--help"], ["export", "--help"]])
def test_nothing_is_looked_up_where_no_part_is_needed(arguments: list[str]) -> None:
    code = dedent(f"""
        import sys
        from jumar.cli.main import main
        main({arguments!r})
        plugins = sys.modules.get("jumar.base.plugins")
        sys.exit(plugins is not None and plugins.installed.cache_info().misses > 0)
    """)
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_the_question_is_asked_once_for_all_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    code = dedent("""
        import importlib.metadata as metadata
        asked, ask = [], metadata.entry_points
        metadata.entry_points = lambda **of: asked.append(of) or ask(**of)
        from jumar.base.rules import all_rules
        from jumar.recording.foreign.recognise import formats
        from jumar.soc.profiles import INSTALLED
        all_rules(), list(formats()), INSTALLED.parts()
        assert asked == [{}], asked
    """)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
