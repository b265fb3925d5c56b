"""The peers' virtual environments, made when they are first needed and kept between runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.results import DIRECTORY

VENVS = DIRECTORY / "venvs"
VERSIONS = ("3.13", "3.12", "3.11")
INSTALL_SECONDS = 600.0


class NotInstalled(Exception):
    """The package cannot be had on any Python of this machine; the message says why."""


def python_of(name: str, requirements: tuple[str, ...], *, renew: bool = False) -> Path:
    """The interpreter of an environment with these packages; `renew` installs them anew.

    Raises NotInstalled with what pip said where no Python will do.
    """
    directory = VENVS / name
    stamp = directory / "requirements.txt"
    wanted = "\n".join(requirements) + "\n"
    python = directory / "bin" / "python"
    if not renew and stamp.exists() and stamp.read_text() == wanted:
        return python
    said = ""
    for base in _pythons():
        shutil.rmtree(directory, ignore_errors=True)
        said = _install(base, directory, requirements)
        if not said:
            stamp.write_text(wanted)
            return python
    raise NotInstalled(said)


def _install(base: str, directory: Path, requirements: tuple[str, ...]) -> str:
    """Nothing, or why it cannot be."""
    pip = [str(directory / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    for command in (
        [base, "-m", "venv", str(directory)],
        [*pip, "install", "--quiet", *requirements],
    ):
        ran = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
        if ran.returncode:
            lines = [line for line in ran.stderr.splitlines() if line.startswith("ERROR")]
            return (lines or ran.stderr.splitlines() or ["pip failed"])[-1]
    return ""


def _pythons() -> list[str]:
    """Our own interpreter first, then others on the path and in pyenv, newest first."""
    found = [sys.executable]
    for version in VERSIONS:
        homes = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
        found += [str(home) for home in sorted(homes, reverse=True)]
        found += [path for path in [shutil.which(f"python{version}")] if path]
    return found
