"""The site of the guides: it builds without a warning, asks for no foreign address, and is searched as a folder."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
needs_mkdocs = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="the extra `docs` is not installed: no site is built"
)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@needs_mkdocs
def test_every_page_of_the_docs_is_on_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        built = page.relative_to(ROOT / "docs").with_suffix(".html")
        built = built.with_name("index.html") if built.stem == "README" else built
        assert (site / built).is_file(), page


@needs_mkdocs
def test_no_page_asks_for_a_foreign_address(site: Path) -> None:
    foreign = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=["']?(?:https?:)?//""")
    for page in site.rglob("*.html"):
        text = re.sub(r'<link[^>]*rel="?canonical[^>]*>', "", page.read_text("utf-8"))
        assert foreign.search(text) is None, page
    for sheet in site.rglob("*.css"):
        assert "url(http" not in sheet.read_text("utf-8")


@needs_mkdocs
def test_every_link_and_picture_leads_somewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        text = page.read_text("utf-8")
        for target in re.findall(r"""<(?:a|img)\b[^>]*?(?:src|href)="([^"]+)\"""", text):
            path, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", path) or not path:
                continue
            file = (page.parent / path).resolve()
            assert file.exists(), f"{page.relative_to(site)} links to {target}"
            if anchor and file.suffix == ".html":
                assert re.search(rf"""id=["']?{re.escape(anchor)}["'\s>]""", file.read_text("utf-8")), (
                    f"{page}: {target}"
                )


@needs_mkdocs
def test_blocks_of_code_and_lists_are_set_as_such(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        seen = re.sub(
            r"<(pre|code|script)\b.*?</\1>", "", text[text.find("<article") : text.find("</article")], flags=re.S
        )
        assert "```" not in seen, page
        assert re.findall(r"^- .*", seen, re.MULTILINE) == [], page


@needs_mkdocs
@pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="no Chromium with its driver is installed")
def test_the_search_works_where_the_site_is_a_folder(site: Path, tmp_path: Path) -> None:
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path}")
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    try:
        browser.get((site / "index.html").as_uri())
        field = browser.find_element("css selector", ".md-search__input")
        browser.execute_script("arguments[0].click()", field)
        field.send_keys("noise floor")
        end = time.monotonic() + 30
        found: list[str] = []
        while not found and time.monotonic() < end:
            time.sleep(0.1)
            found = [
                one.text for one in browser.find_elements("css selector", ".md-search-result__item h1") if one.text
            ]
        assert found[0].startswith("The noise floor")
    finally:
        browser.quit()


def test_the_reference_is_that_of_the_code() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "build_reference.py"))
    for name, text in script["pages"]().items():
        assert (ROOT / "docs" / "reference" / name).read_text("utf-8") == text, "run scripts/build_reference.py"


def test_no_message_names_a_page_that_pip_does_not_install() -> None:
    named = re.compile(r"\bdocs/[a-z][\w-]*\.md")
    for file in (ROOT / "src" / "jumar").rglob("*.py"):
        for line in file.read_text("utf-8").splitlines():
            found = named.search(line)
            assert found is None or "github.com" in line or "Ascend" in line or file.name == "shelf.py", (
                f"{file}: {line}"
            )
    index = json.loads((ROOT / "src" / "jumar" / "base" / "rules" / "index.json").read_text("utf-8"))
    assert named.search(json.dumps(index)) is None
