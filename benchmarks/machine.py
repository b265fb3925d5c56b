"""The machine and the software, by asking them."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("Django", "mysqlclient", "psycopg")


def describe() -> dict[str, str]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{os.cpu_count()} cores, {_processor()}",
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "disk": f"{_file_system(tempfile.gettempdir())} on a disk of "
        f"{shutil.disk_usage(tempfile.gettempdir()).total / 2**30:.0f} GiB",
        "software": ", ".join(
            [f"Python {platform.python_version()}", *filter(None, map(_package, PACKAGES))]
        ),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _file_system(path: str) -> str:
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    above = [(place, kind) for place, kind in mounts if path.startswith(place)]
    return max(above, key=lambda mount: len(mount[0]))[1]


def _package(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return ""
