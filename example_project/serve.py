"""The admin on a free loopback port, with a demo login: `make admin`."""

import os
from typing import Any

import django
from django.contrib.auth import get_user_model
from django.contrib.staticfiles.management.commands.runserver import Command as RunServer
from django.core.management import call_command

USERNAME = "demo"
PASSWORD = "skipper-demo"  # noqa: S105  (public: the server listens on loopback only)


class DemoServer(RunServer):
    """Django's development server, saying where the admin is once the port is known."""

    def on_bind(self, server_port: Any) -> None:
        self.stdout.write(
            f"The admin: http://127.0.0.1:{server_port}/admin/skipper_django/task/\n"
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


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    django.setup()
    call_command("migrate", verbosity=0)
    make_demo_login()
    call_command(DemoServer(), "127.0.0.1:0", use_reloader=False)


if __name__ == "__main__":
    main()
