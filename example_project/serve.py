"""The admin on a free loopback port, with a demo login: `make admin`.

The same process runs a worker, so that the Cluster page has a member to mark as its own.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import django
from django.contrib.auth import get_user_model
from django.contrib.staticfiles.management.commands.runserver import Command as RunServer
from django.core.management import call_command

from skipper_django.embed import start_worker

USERNAME = "demo"
PASSWORD = "skipper-demo"  # noqa: S105  (public: the server listens on loopback only)


class DemoServer(RunServer):
    """Django's development server, saying where the admin is once the port is known."""

    def on_bind(self, server_port: Any) -> None:
        self.stdout.write(
            f"The tasks: http://127.0.0.1:{server_port}/admin/skipper_django/task/\n"
            f"The cluster: http://127.0.0.1:{server_port}/admin/skipper_django/member/\n"
            f"Log in as {USERNAME} with the password {PASSWORD}; Ctrl-C stops the server."
        )
        self.stdout.flush()


def make_demo_login() -> None:
    user, _ = get_user_model().objects.get_or_create(
        username=USERNAME, defaults={"is_staff": True, "is_superuser": True}
    )
    if not user.check_password(PASSWORD):
        user.set_password(PASSWORD)
    user.is_staff = user.is_superuser = user.is_active = True
    user.save()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m example_project.serve", description=__doc__)
    parser.add_argument("--no-worker", action="store_true", help="show the admin only")
    wants_worker = not parser.parse_args(arguments).no_worker
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    django.setup()
    call_command("migrate", verbosity=0)
    make_demo_login()
    if wants_worker:
        # Else SIGTERM would end the process before its worker can hand anything back.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
        start_worker(concurrency=2, shutdown_timeout=5)
    call_command(DemoServer(), "127.0.0.1:0", use_reloader=False)


if __name__ == "__main__":
    main()
