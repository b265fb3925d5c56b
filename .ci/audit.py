"""What pip-audit found: fails for a known vulnerability, never for want of an answer.

python .ci/audit.py FILE    # of `pip-audit --format json --output FILE`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(path: Path) -> int:
    try:
        found: list[dict[str, Any]] = json.loads(path.read_text())["dependencies"]
    except (OSError, ValueError, KeyError):
        print("audit: no answer from the registry")
        return 0
    answered = [package for package in found if "vulns" in package]
    print(f"audit: {len(answered)} of {len(found)} packages are known to the registry")
    bad = [(package, vulnerability) for package in answered for vulnerability in package["vulns"]]
    for package, vulnerability in bad:
        fixed = ", ".join(vulnerability.get("fix_versions", [])) or "no version yet"
        print(f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {fixed}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
