"""Column types whose values mean the same on every database."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from .store.dialects import dialect_of

if TYPE_CHECKING:  # Django's own fields take no type parameters
    _CharField = models.CharField[Any, Any]
    _TextField = models.TextField[Any, Any]
    _DateTimeField = models.DateTimeField[Any, Any]
else:
    _CharField = models.CharField
    _TextField = models.TextField
    _DateTimeField = models.DateTimeField


class ExactCharField(_CharField):
    """Text compared byte by byte, trailing spaces included, whatever the database's collation."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return f"varchar({self.max_length}){dialect_of(connection).exact_text}"

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Any:
        return _as_text(value)


class LongTextField(_TextField):
    """Text of any length and any alphabet, whatever the database's character set."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        dialect = dialect_of(connection)
        return f"{dialect.long_text}{dialect.exact_text}"

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Any:
        return _as_text(value)


def _as_text(value: Any) -> Any:
    """SQLite keeps bytes in a column of text, if somebody writes them."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


class InstantField(_DateTimeField):
    """A moment, stored in UTC and read as an aware datetime, whatever USE_TZ says."""

    def get_internal_type(self) -> str:
        # Not DateTimeField: Django would apply USE_TZ and the connection's time zone.
        return "InstantField"

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return dialect_of(connection).instant_type

    def get_prep_value(self, value: Any) -> Any:
        value = models.Field.get_prep_value(self, value)
        return self.to_python(value)

    def to_python(self, value: Any) -> Any:
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        return value

    def get_db_prep_value(
        self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False
    ) -> Any:
        if not prepared:
            value = self.get_prep_value(value)
        return dialect_of(connection).to_db(value) if isinstance(value, datetime) else value

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        """What is there and is no moment reads as None: it must not fail a whole page."""
        dialect = dialect_of(compiler.connection)
        return f"CASE WHEN {dialect.is_moment(sql)} THEN {sql} END", params

    def from_db_value(
        self, value: Any, expression: Any, connection: BaseDatabaseWrapper
    ) -> datetime | None:
        return dialect_of(connection).from_db(value)
