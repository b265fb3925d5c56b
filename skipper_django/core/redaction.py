"""What must not be shown: values of sensitive arguments, and the same values inside texts."""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

HIDDEN = "[hidden]"
# Names that are taken for sensitive without being marked.
SECRET_NAME = re.compile(
    "passw|passphrase|secret|token|api_?key|private_?key|access_?key|credential|authorization|cookie",
    re.IGNORECASE,
)
# A shorter value is hidden where it stands as a word: it may be a part of others.
SHORT = 4
# A still shorter one is not looked for: it would take every other letter with it.
SHORTEST = 3


def is_sensitive(name: object, marked: Collection[str]) -> bool:
    return isinstance(name, str) and (name in marked or SECRET_NAME.search(name) is not None)


def without_secrets(
    args: Sequence[Any], kwargs: dict[str, Any], names: Sequence[str], marked: Collection[str]
) -> tuple[list[Any], dict[str, Any]]:
    """Copies of the arguments to show; `names` are those of the positional ones, where known."""
    named = [*names, *[""] * len(args)]
    shown = [
        HIDDEN if is_sensitive(name, marked) else _masked(value, marked)
        for name, value in zip(named, args, strict=False)
    ]
    return shown, _masked(kwargs, marked)


def secrets_of(
    args: Sequence[Any], kwargs: dict[str, Any], names: Sequence[str], marked: Collection[str]
) -> frozenset[str]:
    """The texts of all values that without_secrets() would hide."""
    named = [*names, *[""] * len(args)]
    return frozenset(
        text
        for name, value in zip(named, args, strict=False)
        for text in _secrets({name: value}, marked)
    ) | frozenset(_secrets(kwargs, marked))


def redacted(text: str, secrets: Collection[str]) -> str:
    """The text without the secrets, also where they stand as Python or JSON would write them."""
    for secret in sorted(secrets, key=len, reverse=True):
        for form in _forms(secret):
            if len(form) >= SHORT:
                text = text.replace(form, HIDDEN)
            else:
                text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", HIDDEN, text)
    return text


def _forms(secret: str) -> list[str]:
    """The longest first: one may be the beginning of another."""
    written = {
        secret,
        repr(secret)[1:-1],
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    }
    # A message that quotes a value is itself quoted in the repr of its exception.
    return sorted(written | {repr(form)[1:-1] for form in written}, key=len, reverse=True)


def _masked(value: Any, marked: Collection[str]) -> Any:
    if isinstance(value, dict):
        return {
            key: HIDDEN if is_sensitive(key, marked) else _masked(item, marked)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_masked(item, marked) for item in value]
    return value


def _secrets(value: Any, marked: Collection[str]) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item) if is_sensitive(key, marked) else _secrets(item, marked)
    elif isinstance(value, list):
        for item in value:
            yield from _secrets(item, marked)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif value is not None and not isinstance(value, bool) and len(str(value).strip()) >= SHORTEST:
        yield str(value)
