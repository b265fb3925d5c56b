"""Strict JSON: what is stored comes back exactly as it was given, on every database."""

import json
from math import isfinite
from typing import Any, NoReturn

from .errors import BadArguments, NotSerializable, PayloadTooLarge
from .text import shown

_REMEDIES = {
    "UUID": "pass str(value)",
    "datetime": "pass value.isoformat()",
    "date": "pass value.isoformat()",
    "time": "pass value.isoformat()",
    "timedelta": "pass value.total_seconds()",
    "Decimal": "pass str(value)",
    "bytes": "pass base64 text",
    "tuple": "pass list(value)",
    "set": "pass sorted(value)",
    "frozenset": "pass sorted(value)",
    "__proxy__": "pass str(value)",
    "Enum": "pass value.value",
    "SafeString": "pass value + ''",
}
_MAX_INT_BITS = 14_000  # Python refuses to read a number of more than 4,300 digits
# Well under Python's limit of 1,000: the stack may be longer where a task runs than where it was
# enqueued, and what was accepted must be readable there.
_MAX_DEPTH = 200
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def dump_arguments(
    args: tuple[Any, ...] | list[Any], kwargs: dict[str, Any], max_bytes: int
) -> tuple[str, str]:
    """The JSON of positional and keyword arguments.

    Raises NotSerializable, naming argument, type and remedy, for a value that JSON would lose or
    change, and PayloadTooLarge above `max_bytes` of UTF-8 for both together.
    """
    for index, value in enumerate(args):
        _check_value(value, f"argument {index}")
    for name, value in kwargs.items():
        _check_key(name, "keyword arguments")
        _check_value(value, f"argument {name!r}")
    args_json, kwargs_json = _encode(list(args)), _encode(kwargs) if kwargs else "{}"
    _check_size("arguments", len(args_json.encode()) + len(kwargs_json.encode()), max_bytes)
    return args_json, kwargs_json


def dump_result(value: Any, max_bytes: int) -> str | None:
    """The JSON of a return value, None for None; tuples become lists, as the framework says.

    Raises NotSerializable or PayloadTooLarge like dump_arguments.
    """
    if value is None:
        return None
    _check_value(value, "result", tuples=True)
    text = _encode(value)
    _check_size("result", len(text.encode()), max_bytes)
    return text


def load_arguments(args_json: object, kwargs_json: object) -> tuple[list[Any], dict[str, Any]]:
    """The stored arguments; raises BadArguments where they are no list and no object."""
    if not (isinstance(args_json, str) and isinstance(kwargs_json, str)):
        raise BadArguments("stored arguments are no text")  # SQLite keeps anything anywhere
    try:
        args = json.loads(args_json)
        kwargs = {} if kwargs_json == "{}" else json.loads(kwargs_json)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadArguments(f"stored arguments are not JSON: {error}") from error
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise BadArguments("stored arguments are not a JSON list and a JSON object")
    if not (_is_shallow(args_json, args) and _is_shallow(kwargs_json, kwargs)):
        raise BadArguments(f"stored arguments are nested more than {_MAX_DEPTH} levels deep")
    return args, kwargs


def _is_shallow(text: str, value: Any) -> bool:
    if text.count("[") + text.count("{") <= _MAX_DEPTH:
        return True
    level = [value]
    for _ in range(_MAX_DEPTH + 1):  # the list or object of all arguments is no level of theirs
        items = (
            item
            for parent in level
            for item in (parent.values() if isinstance(parent, dict) else parent)
        )
        level = [item for item in items if isinstance(item, (list, dict))]
        if not level:
            return True
    return False


def _check_value(value: Any, where: str, tuples: bool = False) -> None:
    try:
        _check(value, where, tuples, 1)
    except RecursionError:
        _refuse(where, type(value).__name__, "nest it less deeply, and never inside itself")


def _check(value: Any, where: str, tuples: bool, depth: int) -> None:
    kind = type(value)
    if depth > _MAX_DEPTH:
        raise RecursionError
    if kind is list or (kind is tuple and tuples):
        for index, item in enumerate(value):
            _check(item, f"{where}[{index}]", tuples, depth + 1)
    elif kind is dict:
        for key, item in value.items():
            _check_key(key, where)
            _check(item, f"{where}[{key!r}]", tuples, depth + 1)
    else:
        _check_scalar(value, where)


def _check_key(key: Any, where: str) -> None:
    if type(key) is not str:
        _refuse(f"{where}, key {shown(key)}", type(key).__name__, "use text as keys")
    _check_scalar(key, f"{where}, key {shown(key)}")


def _check_scalar(value: Any, where: str) -> None:
    kind = type(value)
    if kind is str:
        if not value.isascii() and not _is_unicode(value):
            _refuse(where, "str with a lone surrogate", "pass text that UTF-8 can encode")
    elif kind is int:
        if value.bit_length() > _MAX_INT_BITS:
            _refuse(where, "int of thousands of digits", "pass hex(value)")
    elif kind is float:
        if not isfinite(value):
            _refuse(where, f"float {value!r}", "pass a finite number, None or text")
    elif value is not None and kind is not bool:
        _refuse(where, kind.__name__, _remedy(value))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _remedy(value: Any) -> str:
    for base in type(value).__mro__:
        if base.__name__ in _REMEDIES:
            return _REMEDIES[base.__name__]
        if base.__name__ == "Model":
            return "pass value.pk and load the object inside the task"
    for base in (str, int, float, list, dict):
        if isinstance(value, base):
            return f"pass {base.__name__}(value)"
    return "pass text, numbers, booleans, None, lists and dicts only"


def _refuse(where: str, kind: str, remedy: str) -> NoReturn:
    raise NotSerializable(
        f"{where} is of type {kind}, which does not survive the round trip through JSON: {remedy}"
    )


def _check_size(what: str, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise PayloadTooLarge(
            f"{what} of {size} bytes of JSON; the limit is {max_bytes}: store the data elsewhere "
            f'and pass a reference, or raise SKIPPER["MAX_PAYLOAD_BYTES"]'
        )
