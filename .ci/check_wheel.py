"""Refuse a wheel that lacks one of the package's files or carries anything else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGE = "skipper_django/"
REQUIRED = {f"{PACKAGE}py.typed", f"{PACKAGE}migrations/__init__.py"}


def tracked_files() -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--", PACKAGE], check=True, capture_output=True, text=True
    )
    return {name for name in listed.stdout.splitlines() if Path(name).exists()}


def main() -> None:
    names = {name for name in zipfile.ZipFile(sys.argv[1]).namelist() if ".dist-info/" not in name}
    wanted = tracked_files() | REQUIRED
    if names != wanted:
        sys.exit(f"wheel lacks {sorted(wanted - names)}, should not have {sorted(names - wanted)}")
    print(f"wheel holds the package's {len(names)} files and nothing else")


if __name__ == "__main__":
    main()
