"""The German catalogue: complete, up to date, compiled, and safe to fill in."""

from __future__ import annotations

import gettext
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "skipper_django"
CATALOGUE = PACKAGE / "locale" / "de" / "LC_MESSAGES" / "django.po"

needs_gettext = pytest.mark.skipif(not shutil.which("xgettext"), reason="no gettext")


def entries() -> dict[str, list[str]]:
    """Every text with its translations, plural ones included."""
    found: dict[str, list[str]] = {}
    for block in CATALOGUE.read_text().split("\n\n")[1:]:
        texts = re.findall(r'^msgid(?:_plural)? "(.*)"$', block, re.MULTILINE)
        translated = re.findall(r'^msgstr(?:\[\d\])? "(.*)"$', block, re.MULTILINE)
        found[texts[0].replace('\\"', '"')] = translated
        assert "fuzzy" not in block
        for text in translated:
            assert _fields(text) == _fields(texts[-1])
    return found


def _fields(text: str) -> list[str]:
    return sorted(re.findall(r"\{\w+\}|%\(\w+\)\w", text))


def test_everything_is_translated() -> None:
    assert len(entries()) > 100
    assert all(all(texts) and texts for texts in entries().values())


def test_the_compiled_catalogue_is_that_of_the_source() -> None:
    with CATALOGUE.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    for text, translated in entries().items():
        if len(translated) == 1:
            assert compiled.gettext(text) == translated[0].replace('\\"', '"')
        else:
            assert [compiled.ngettext(text, "", count) for count in (1, 2)] == translated


@needs_gettext
def test_every_text_of_the_code_is_in_the_catalogue(tmp_path: Path) -> None:
    output = tmp_path / "found.pot"
    sources = [str(path) for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts]
    keywords = [f"--keyword={name}" for name in ("_", "gettext_lazy", "ngettext:1,2")]
    subprocess.run(
        ["xgettext", "--language=Python", "--from-code=UTF-8", "--no-wrap", *keywords,
         f"--output={output}", *sources],
        check=True,
    )  # fmt: skip
    found = re.findall(r'^msgid "(.+)"$', output.read_text(), re.MULTILINE)
    for template in PACKAGE.rglob("*.html"):
        found += re.findall(r'{% translate "(.*?)" %}', template.read_text())
    assert {text.replace('\\"', '"') for text in found} <= set(entries())
