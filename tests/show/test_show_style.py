"""The colours of the style sheet: WCAG 2 AA in the light and the dark scheme."""

from __future__ import annotations

import re
from importlib import resources

import pytest

CSS = resources.files("jumar.show.html").joinpath("templates/page.css").read_text(encoding="utf-8")
STATUSES = ("fine", "attention", "failed", "advice", "info")
TEXT = [
    *[(ink, ground) for ink in ("ink", "quiet", "link") for ground in ("ground", "paper", "raised", "code")],
    *[("ink", ground) for ground in ("stripe", "bar", "marked", *(f"{status}-ground" for status in STATUSES[:3]))],
    *[("quiet", ground) for ground in ("stripe", "fine-ground", "failed-ground", "none")],
    *[(status, f"{status}-ground") for status in STATUSES],
    *[(status, "raised") for status in ("fine", "failed")],
    *[("ink", f"{status}-edge") for status in ("fine", "failed")],
    *[(f"s{index}", "paper") for index in range(6)],
    ("zero-ink", "zero"),
    ("bad-ink", "bad"),
    ("paper", "ink"),
]
GRAPHICS = [
    ("mark-edge", "marked"),
    ("strong-edge", "paper"),
    ("focus", "ground"),
    ("focus", "paper"),
    ("paper", "fine"),
]


def colours(scheme: str) -> dict[str, str]:
    light, dark = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)[:2]
    pattern = re.compile(r"--([\w-]+): (#[0-9a-f]{6});")
    return dict(pattern.findall(light)) | (dict(pattern.findall(dark)) if scheme == "dark" else {})


def luminance(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_a_contrast_of_at_least_4_5(scheme: str) -> None:
    palette = colours(scheme)
    pairs = {pair: round(contrast(palette[pair[0]], palette[pair[1]]), 2) for pair in TEXT}
    assert {pair: value for pair, value in pairs.items() if value < 4.5} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_drawn_has_a_contrast_of_at_least_3(scheme: str) -> None:
    palette = colours(scheme)
    pairs = {pair: round(contrast(palette[pair[0]], palette[pair[1]]), 2) for pair in GRAPHICS}
    assert {pair: value for pair, value in pairs.items() if value < 3} == {}


def test_names_on_the_heat_scale_are_readable() -> None:
    light, dark = colours("light"), colours("dark")
    low = {}
    for index in range(1, 8):
        low["light", index] = contrast(light[f"h{index}"], light["h-dark-ink" if index <= 5 else "h-light-ink"])
        low["dark", index] = contrast(dark[f"h{index}"], dark["h-light-ink" if index <= 4 else "h-dark-ink"])
    assert {key: round(value, 2) for key, value in low.items() if value < 4.5} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_heat_scale_gets_steadily_farther_from_the_paper(scheme: str) -> None:
    palette = colours(scheme)
    distances = [contrast(palette[f"h{index}"], palette["paper"]) for index in range(1, 8)]
    assert distances == sorted(distances)


def test_the_page_has_styles_for_paper_phones_the_dark_and_for_less_motion() -> None:
    asked = {
        "print",
        "(max-width: 640px)",
        "screen and (prefers-color-scheme: dark)",
        "(prefers-reduced-motion: reduce)",
    }
    assert asked - set(re.findall(r"@media (.+?) \{", CSS)) == set()
