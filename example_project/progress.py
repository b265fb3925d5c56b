"""How far the work is: a bar on a terminal, a line now and then elsewhere."""

import shutil
import sys
from time import monotonic

LINE_EVERY_SHARE = 0.1


class Progress:
    def __init__(self, total: int) -> None:
        self._total = total
        self._started = monotonic()
        self._on_terminal = sys.stdout.isatty()
        self._shown_share = 0.0

    def show(self, done: int) -> None:
        share = done / self._total if self._total else 1.0
        if self._on_terminal:
            print(f"\r{self._bar(share)} {self._text(done)}", end="", flush=True)
        elif share >= self._shown_share + LINE_EVERY_SHARE or (share == 1 > self._shown_share):
            self._shown_share = share
            print(self._text(done), flush=True)

    def close(self) -> None:
        if self._on_terminal:
            print()

    def _text(self, done: int) -> str:
        return f"{done:>6,} of {self._total:,} tasks, {monotonic() - self._started:5.1f} s"

    def _bar(self, share: float) -> str:
        width = max(10, min(60, shutil.get_terminal_size().columns - 40))
        filled = round(share * width)
        return f"[{'#' * filled}{'.' * (width - filled)}]"
