"""What the site makes of the pages in `docs`: mkdocs calls these functions (`hooks` in mkdocs.yml).

The pages link to files beside `docs` so that they can be read in a checkout. The site has pages of its own for some of
these files; of the others it shows the path. A `*` in the navigation stands for all pages that nothing else names.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
BESIDE = {
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "README.md": "project/readme.md",
    "README.zh-CN.md": "project/readme-zh.md",
    "examples/README.md": "project/examples.md",
}
"""Files beside `docs` that are pages of the site."""
_SHIM = re.compile(r'<script src="?https://unpkg\.com/iframe-worker/shim"?></script>')
_FENCE = re.compile(r"^```(\w+) [^`\n]+$", re.MULTILINE)
"""A fence with words for the tests behind the language; the site's Markdown takes it for text."""
_LIST = re.compile(r"^(?![|#\s<]|[-*] |\d+\. )(.+)\n(?=[-*] |1\. )", re.MULTILINE)
"""A line of text above a list; the site's Markdown wants an empty line between them."""
_LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages for files beside `docs`, and write out the navigation."""
    for source, page in BESIDE.items():
        if (ROOT / source).is_file():
            files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    pages = [file.src_uri for file in files.documentation_pages()]
    named = set(_named(config["nav"]))
    beside = [page for source, page in BESIDE.items() if (ROOT / source).is_file()]
    config["nav"] = [*_expanded(config["nav"], pages, named), {"Project": beside}]
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001 - mkdocs names them
    """Point links that lead out of `docs` to the site's own pages, or show the path that they name."""
    place = page.file.src_uri
    beside = {page_uri: source for source, page_uri in BESIDE.items()}
    here = beside.get(place, f"docs/{place}")

    def pointed(match: re.Match[str]) -> str:
        mark, text, target, anchor = match[1], match[2], match[3], match[4] or ""
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        known = path.removeprefix("docs/") if path.startswith("docs/") else BESIDE.get(path)
        if known is not None and (files.get_file_from_path(known) or mark):
            return f"{mark}[{text}]({posixpath.relpath(known, posixpath.dirname(place) or '.')}{anchor})"
        return f"{text} (`{path}`)" if f"`{path}`" not in text and path not in text else text

    parts = re.split(r"(^```.*?^```$)", _FENCE.sub(r"```\1", markdown), flags=re.MULTILINE | re.DOTALL)
    markdown = "".join(part if index % 2 else _LIST.sub(r"\1\n\n", part) for index, part in enumerate(parts))
    return _outside_code(markdown, lambda part: _LINK.sub(pointed, part))


def on_post_page(output: str, page: Any, config: Any) -> str:  # noqa: ARG001
    """Have the site's own script where the theme names one of a foreign address."""
    own = posixpath.relpath("assets/offline-worker.js", posixpath.dirname(page.file.dest_uri) or ".")
    return _SHIM.sub(f'<script src="{own}"></script>', output)


def on_post_template(output: str, template_name: str, config: Any) -> str:  # noqa: ARG001
    """Do the same for pages that no file stands behind (404.html)."""
    return _SHIM.sub('<script src="assets/offline-worker.js"></script>', output)


def _outside_code(markdown: str, change: Any) -> str:
    """Change what does not stand in fences or backquotes."""
    parts = re.split(r"(^```.*?^```$|`[^`\n]+`(?!\]))", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if index % 2 else change(part) for index, part in enumerate(parts))


def _named(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [] if "*" in nav else [nav]
    if isinstance(nav, dict):
        return [name for value in nav.values() for name in _named(value)]
    return [name for one in nav or [] for name in _named(one)]


def _expanded(nav: list[Any], pages: list[str], named: set[str]) -> list[Any]:
    out: list[Any] = []
    for one in nav:
        if isinstance(one, dict):
            (title, below), *_ = one.items()
            if isinstance(below, str) and "*" not in below:
                out += [one] if below in pages else []
                continue
            found = _expanded([below] if isinstance(below, str) else below, pages, named)
            out += [{title: found}] if found else []
        elif "*" in one:
            out += sorted(page for page in pages if fnmatch.fnmatch(page, one) and page not in named)
        elif one in pages:
            out.append(one)
    return out
