"""What differs between the databases; the only place that names one."""

from django.core.exceptions import ImproperlyConfigured
from django.db.backends.base.base import BaseDatabaseWrapper

from .base import Dialect
from .mysql import MySQL
from .postgresql import PostgreSQL
from .sqlite import SQLite

__all__ = ["Dialect", "dialect_of"]

_DIALECTS: dict[str, type[Dialect]] = {
    "mysql": MySQL,
    "postgresql": PostgreSQL,
    "sqlite": SQLite,
}


def dialect_of(connection: BaseDatabaseWrapper) -> Dialect:
    try:
        return _DIALECTS[connection.vendor](connection)
    except KeyError:
        raise ImproperlyConfigured(
            f"skipper_django does not know the database {connection.vendor!r} of alias "
            f"{connection.alias!r}; use SQLite, MySQL, MariaDB or PostgreSQL"
        ) from None
