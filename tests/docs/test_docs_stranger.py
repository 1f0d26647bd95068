"""A stranger: clone, the first set-up command as the README writes it, tutorial one, and its page's first action."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1400,900"),
)


def run(command: str, folder: Path, **more: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env={**clean, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clone the checkout, and give the first command of its README; packages that are here are not loaded again."""
    pytest.importorskip("setuptools_scm", reason="the extra `release` is not installed: nothing is built here")
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout: there is nothing to clone")
    folder = tmp_path_factory.mktemp("stranger")
    run(f"git clone -q {ROOT} jumar", folder)
    readme = (folder / "jumar" / "README.md").read_text("utf-8")
    command = next(text for text in re.findall(r"^```bash\n(.*?)^```$", readme, re.M | re.S) if "pip install" in text)
    run(
        command,
        folder / "jumar",
        PYTHONPATH=sysconfig.get_path("purelib"),
        PIP_NO_BUILD_ISOLATION="0",
        PIP_NO_INDEX="1",
    )
    return folder / "jumar"


def test_the_first_command_leaves_a_page_with_a_verdict(clone: Path) -> None:
    page = (clone / "jumar-port" / "index.html").read_text("utf-8")
    assert 'class="verdict fine"' in page


@pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="no Chromium with its driver is installed")
def test_the_first_action_of_the_page_can_be_carried_out(clone: Path, tmp_path: Path) -> None:
    webdriver = pytest.importorskip("selenium.webdriver")
    tutorial = (clone / "docs" / "tutorials" / "1-port.md").read_text("utf-8")
    script = re.search(r"^```python file=train\.py\n(.*?)^```$", tutorial, re.MULTILINE | re.DOTALL)
    assert script is not None
    (tmp_path / "train.py").write_text(script[1])
    first, *_ = re.findall(r"^```bash\n(.*?)^```$", tutorial, re.MULTILINE | re.DOTALL)
    tools = {"PYTHONPATH": sysconfig.get_path("purelib"), "PATH": f"{clone}/.venv/bin{os.pathsep}{os.environ['PATH']}"}
    run(first, tmp_path, **tools)

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    try:
        browser.get((tmp_path / "jumar-port" / "index.html").as_uri())
        assert browser.find_element("css selector", ".verdict .word").text.lower() == "fine"
        commands = [one.text for one in browser.find_elements("css selector", ".next .command code")]
    finally:
        browser.quit()
    action = next(command for command in commands if "git" in command)
    run(action, tmp_path)
    assert "import torch_npu" in (tmp_path / "train.py").read_text()
    assert "loss" in run("jumar run train.py --steps 2", tmp_path, **tools)
