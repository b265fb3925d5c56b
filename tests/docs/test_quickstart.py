"""The quickstarts, pasted literally into an empty directory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, README, blocks, section


def script_of(text: str) -> str:
    """Shell blocks as they stand; each block of Python goes to the end of the file it names."""
    parts = ["set -e"]
    for block in blocks(text):
        if block.language == "python":
            found = re.match(r"# ([\w/]+\.py)", block.text)
            assert found, f"a block that names no file: {block.text}"
            parts.append(f"cat >>{found[1]} <<'END'\n{block.text}END")
        elif block.language == "sh":
            parts.append(block.text)
    return "\n".join(parts)


def paste(text: str, directory: Path) -> str:
    environment = {
        name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"
    }
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = subprocess.Popen(
        ["bash", "-c", script_of(text)],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = shell.communicate(timeout=90)
    except subprocess.TimeoutExpired:
        # All that it started: a worker that does not end would outlive the test.
        os.killpg(shell.pid, signal.SIGTERM)
        output, _ = shell.communicate(timeout=20)
        pytest.fail(f"does not end: {output}")
    assert shell.returncode == 0, output
    assert "WARNINGS" not in output, output
    return output


@pytest.mark.slow
def test_quickstart_of_the_readme_runs_its_task(tmp_path: Path) -> None:
    output = paste(section(README.read_text(), "## Quickstart"), tmp_path)

    assert "Welcome, user 42!" in output


@pytest.mark.slow
def test_quickstart_of_the_docs_shows_what_it_says(tmp_path: Path) -> None:
    output = paste((DOCS / "quickstart.md").read_text(), tmp_path)

    assert "SUCCESSFUL - Welcome, user 42!" in output
    assert "FAILED after 3 attempts" in output
    assert "ConnectionError: no answer for order 7" in output
