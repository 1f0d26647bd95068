"""A scaffolded distribution of every kind passes its own tests as it is written, and is used by `jumar`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import scaffolds
import torch
from scaffolds import jumar

import jumar.testing as jumar_testing
from jumar.base.errors import OutputError, UsageError
from jumar.base.plugins import GROUPS
from jumar.testing.scaffold import TARGETS, TEMPLATES, write


def test_every_kind_has_an_entry_point_group_and_templates() -> None:
    assert list(TARGETS) == list(GROUPS)
    assert {path.parent.name for path in TEMPLATES.glob("*/part.txt")} == set(GROUPS)
    assert {path.parent.name for path in TEMPLATES.glob("*/test.txt")} == set(GROUPS)


@pytest.mark.parametrize("kind", GROUPS)
def test_contributing_has_a_recipe_of_five_steps_for_every_kind(kind: str) -> None:
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
    assert f"`{GROUPS[kind]}`" in text
    _, scaffold, after = text.partition(f"1. Run `python -m jumar.testing.scaffold {kind} ")
    assert scaffold
    recipe = after.partition("\n\n")[0]
    assert [line[:2] for line in recipe.splitlines() if line[:1].isdigit()] == ["2.", "3.", "4.", "5."]


def test_contributing_names_every_contract() -> None:
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
    assert [name for name in jumar_testing.__all__ if f"`{name}`" not in text] == []


@pytest.mark.parametrize("kind", GROUPS)
def test_every_file_of_a_scaffold_is_complete(kind: str, tmp_path: Path) -> None:
    place = write(kind, "acme-part", tmp_path)
    files = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    assert files == {"pyproject.toml", "README.md", "src/acme_part.py", "tests/test_acme_part.py"}
    for path in place.rglob("*.py"):
        compile(path.read_text("utf-8"), str(path), "exec")
        assert max(map(len, path.read_text("utf-8").splitlines())) <= 120


def test_a_folder_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    write("rule", "acme", tmp_path)
    with pytest.raises(OutputError, match="acme exists"):
        write("engine", "acme", tmp_path)


@pytest.mark.parametrize("name", ["Acme", "1acme", "acme rules", "../acme", "acme-", ""])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lower-case words"):
        write("rule", name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_kind_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="must be one of engine, rule"):
        write("plugin", "acme", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", GROUPS)
def test_a_scaffold_passes_its_own_tests(kind: str, tmp_path: Path) -> None:
    place = write(kind, f"acme-{kind}", tmp_path)
    done = scaffolds.run(["-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"], place, place)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "skipped" not in done.stdout


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A distribution of the kind that the test is for."""
    return scaffolds.installed(request.param, f"acme-{request.param}", tmp_path / "acme")


def of(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("place", [kind], indirect=True)


@pytest.mark.slow
@of("rule")
def test_an_installed_rule_converts(place: Path, tmp_path: Path) -> None:
    source = tmp_path / "project"
    source.mkdir()
    (source / "a.py").write_text("import acme_rule\nacme_rule.to_gpu(1)\n")
    done = jumar(place, tmp_path, "convert", "-i", "project", "-o", "out")
    assert done.returncode == 0, done.stderr
    (converted,) = (tmp_path / "out").rglob("a.py")
    assert converted.read_text() == "import acme_rule\nacme_rule.to_npu(1)\n"
    assert "acme-rule-to-gpu" in jumar(place, tmp_path, "rule", "ACMERULE101").stdout
    assert "ACMERULE101" in jumar(place, tmp_path, "rule").stdout
    left = jumar(place, tmp_path, "convert", "-i", "project", "-o", "left", "--disable", "acme-rule-to-gpu")
    assert left.returncode == 0, left.stderr
    assert [path.read_text() for path in (tmp_path / "left").rglob("a.py")] == [(source / "a.py").read_text()]


@pytest.mark.slow
@of("doctor-check")
def test_an_installed_check_is_made_by_the_doctor(place: Path, tmp_path: Path) -> None:
    done = jumar(place, tmp_path, "doctor", "--json", ACME_DOCTOR_CHECK="/tmp/x")
    found = [finding for finding in json.loads(done.stdout)["findings"] if finding["code"] == "ACMEDOCT801"]
    assert [finding["message"] for finding in found] == [
        "ACME_DOCTOR_CHECK names /tmp/x, which is emptied when the machine starts."
    ]


@pytest.mark.slow
@of("doctor-entries")
def test_an_installed_entry_explains_a_log(place: Path, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("acme-doctor-entries: quota of vision is used up (job 1)\n")
    done = jumar(place, tmp_path, "doctor", "run.log", "--json")
    assert [finding["message"] for finding in json.loads(done.stdout)["findings"]] == [
        "The scheduler ended the job, because its quota is used up."
    ]


@pytest.mark.slow
@of("soc-profile")
def test_an_installed_profile_is_taken_by_soc(place: Path, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\ntorch.add(1, 1)\n")
    done = jumar(place, tmp_path, "assess", "a.py", "--soc", "acmesocprofile", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["soc"] == "AcmeSocProfile"
    refused = jumar(place, tmp_path, "assess", "a.py", "--soc", "AcmeSocProfil")
    assert refused.returncode == 2
    assert "did you mean AcmeSocProfile?" in refused.stderr


@pytest.mark.slow
@of("npu-operator")
def test_an_installed_operator_is_on_the_emulated_npu(place: Path, tmp_path: Path) -> None:
    (tmp_path / "n.py").write_text(
        "import torch\n"
        "x = torch.tensor([-1.0, 2.0]).npu().requires_grad_()\n"
        "y = torch.ops.acme_npu_operator.scaled_relu(x, 3.0)\n"
        "y.sum().backward()\n"
        "print(y.device, y.tolist(), x.grad.tolist())\n"
    )
    done = jumar(place, tmp_path, "run", "n.py", PYTHONWARNINGS="error::UserWarning:n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "npu:0 [0.0, 6.0] [0.0, 3.0]"
    assert "not currently supported" not in done.stderr


@pytest.mark.slow
@of("dump-format")
def test_an_installed_dump_format_is_compared(place: Path, tmp_path: Path) -> None:
    x = {"dtype": "float32", "shape": [2], "values": [-1, 1]}
    y = {"dtype": "float32", "shape": [2], "values": [0, 1]}
    calls = [{"name": "aten::relu", "inputs": {"input.0": x}, "outputs": {"output.0": y}}]
    for name in ("a.run", "b.run"):
        (tmp_path / name).write_text(json.dumps({"format": "acme-dump-format", "calls": calls}))
    done = jumar(place, tmp_path, "compare", "a.run", "b.run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "agree"


@pytest.mark.slow
@of("export-format")
def test_an_installed_export_format_is_written_by_its_suffix(place: Path, tmp_path: Path) -> None:
    torch.save({"model": {"module.w": torch.ones(2, dtype=torch.bfloat16)}}, tmp_path / "c.pth")
    done = jumar(place, tmp_path, "export", "checkpoint", "c.pth", "o.acme_export_format")
    assert done.returncode == 0, done.stderr
    assert "read back and equal bit by bit" in done.stdout
    assert (tmp_path / "o.acme_export_format").read_bytes()[:2] == b"PK"


@pytest.mark.slow
@of("engine")
def test_an_installed_engine_is_tried_by_tune(place: Path, tmp_path: Path) -> None:
    (tmp_path / "bank").mkdir()
    (tmp_path / "m.py").write_text(
        "import torch\n\n\ndef build():\n    return torch.nn.Linear(8, 8), (torch.randn(4, 8),)\n"
    )
    done = jumar(place, tmp_path, "tune", "m:build", "--job-type", "1", "--trials", "3", "--bank", "bank", "--json")
    assert done.returncode == 0, done.stderr
    (graph,) = json.loads(done.stdout)["graphs"]
    assert "acme-engine" in {attempt["summary"] for attempt in graph["attempts"]}
