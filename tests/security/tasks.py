"""Tasks that are trusted with secrets, and tell them."""

from __future__ import annotations

from typing import Any

from skipper_django import task


@task(sensitive=("pin", "where"), max_attempts=2, backoff=0)
def fails_with(pin: str, *rest: Any, where: dict[str, Any] | None = None) -> None:
    raise ValueError(f"the pin {pin} is wrong, {rest}, {where!r}")


@task(sensitive=("pin",))
def fails_quietly(pin: str, password: str = "") -> None:
    copied = pin.upper()
    raise ValueError(f"{len(copied)} characters are wrong")


@task(sensitive=["pin"])
async def fails_async(pin: str) -> None:
    raise ValueError(f"not {pin}")


@task(sensitive=("rest",), takes_context=True)
def echoes(context: Any, first: str, *rest: str, **others: Any) -> Any:
    return [first, *rest, others]


@task
def unmarked(password: str, plain: str, config: dict[str, Any] | None = None) -> str:
    raise LookupError(f"{plain} {password} {config}")
