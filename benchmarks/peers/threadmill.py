"""threadmill, which knows only Redis."""

from __future__ import annotations

from typing import Any

from benchmarks.peers.django_peer import DjangoPeer, portions


class Threadmill(DjangoPeer):
    name = "threadmill"
    requirements = ("threadmill[redis]", "Django==6.1.*")
    databases = ("redis",)
    setting = "`threadmill worker -w N`, 1 thread each, its default; Redis not durable by task"
    apps = ("threadmill",)

    def backend(self) -> dict[str, Any]:
        return {
            "BACKEND": "threadmill.backends.redis.RedisTaskBackend",
            "QUEUES": ["default"],
            "REDIS_URL": f"redis://{self.connection['HOST']}:{self.connection['PORT']}/0",
        }

    def django_databases(self) -> dict[str, dict[str, Any]]:
        return {}

    @property
    def _backend(self) -> Any:
        from django.tasks import task_backends

        return task_backends["default"]

    def set_up(self) -> None:
        import django

        django.setup()
        self.clear()

    def clear(self) -> None:
        self._backend.client.flushall()

    def fill(self, numbers: range) -> None:
        for some in portions(numbers, 5_000):
            self.singles(some)

    def left(self) -> int:
        keys = (self._backend.QUEUE_KEY, self._backend.RUNNING_KEY)
        names = [key.format(prefix=self._backend.key_prefix, queue_name="default") for key in keys]
        return sum(self._backend.client.zcard(name) for name in names)

    def arguments(self, processes: int) -> tuple[str, ...]:
        return ("threadmill", "worker", "-w", str(processes))
