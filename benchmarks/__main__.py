"""python -m benchmarks [run] | claim | latency | profile | compare | report

run      measure, print the table, keep the figures in build/benchmarks/ (also without a name)
claim    that part of it: claims as the backlog, the other rows and the members grow
latency  that part of it: the pick-up of an idle worker, woken and by polling alone
profile  the steps that a draining worker spends its time in
compare  install the peers, run them beside us, print every target with our ratio
report   print the last tables again, or write them into documents between their markers
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from benchmarks import compare, profile, report, run

# Each module has `add_arguments(parser)` and `main(options)`; its first line says what it does.
COMMANDS = {
    "run": run,
    "profile": profile,
    "compare": compare,
    "report": report,
}

# Names for `run --only ...`.
PARTS_OF_RUN = {"claim": "claim", "latency": "idle,polling"}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=(module.__doc__ or "").splitlines()[0]))
    if arguments and arguments[0] in PARTS_OF_RUN:
        arguments = ["run", "--only", PARTS_OF_RUN[arguments[0]], *arguments[1:]]
    plain = not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help"))
    options = parser.parse_args(["run", *arguments] if plain else arguments)
    COMMANDS[options.command].main(options)


if __name__ == "__main__":
    # As Ctrl-C does: what was started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    main(sys.argv[1:])
