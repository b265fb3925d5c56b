"""The work: one task for each module of the standard library's own source tree."""

import ast
import sysconfig
from collections import Counter
from pathlib import Path

from skipper_django import task

from .models import ModuleReport

TOP_NAMES = 10


def standard_library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def module_paths() -> list[str]:
    """Every module of the standard library, its tests included, relative to its directory."""
    root = standard_library()
    paths = (path.relative_to(root) for path in root.rglob("*.py"))
    return sorted(
        path.as_posix()
        for path in paths
        if not {"site-packages", "dist-packages"}.intersection(path.parts)
    )


@task(queue_name="library", timeout=60)
def report_module(path: str) -> dict[str, int]:
    """Parse one module, count what is in it, store a row.

    A task may run again after a crash: so it overwrites its row instead of adding one.
    """
    source = (standard_library() / path).read_bytes()
    nodes = list(ast.walk(ast.parse(source, path)))
    names = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    counts = {
        "lines": len(source.splitlines()),
        "functions": sum(isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) for n in nodes),
        "classes": sum(isinstance(node, ast.ClassDef) for node in nodes),
    }
    ModuleReport.objects.update_or_create(
        path=path, defaults={**counts, "top_names": names.most_common(TOP_NAMES)}
    )
    return counts
