"""The port: bound before anything is forked, answered in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from django.core.management import CommandError, call_command

from skipper_django.metrics.exporter import Exporter
from tests.metrics.scraping import scrape, total


@contextmanager
def serving(exporter: Exporter) -> Iterator[str]:
    """As under a supervisor: this process forks it, and kills it at the end."""
    pid = os.fork()
    if not pid:
        try:
            exporter.run()
        finally:
            os._exit(0)
    try:
        yield exporter.url
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    exporter = Exporter("127.0.0.1", 0, 2)
    yield exporter
    exporter.close()


def test_it_answers_with_what_the_processes_count_from_now_on(exporter: Exporter) -> None:
    with serving(exporter) as url:
        before = total(scrape(url), "skipper_worker_process_deaths_total")
        exporter.child_ended(0, "killed")
        exporter.child_ended(1, None)
        after = scrape(url)

    assert before == 0
    assert total(after, "skipper_worker_process_deaths_total") == 1
    assert total(after, "skipper_worker_process_deaths_total", cause="killed") == 1


def test_it_speaks_both_formats(exporter: Exporter) -> None:
    with serving(exporter) as url:
        plain = urlopen(url, timeout=20)  # noqa: S310
        wanted = Request(  # noqa: S310
            url, headers={"Accept": "application/openmetrics-text; version=1.0.0"}
        )
        open_metrics = urlopen(wanted, timeout=20)  # noqa: S310
        with plain, open_metrics:
            assert plain.headers["Content-Type"].startswith("text/plain")
            assert open_metrics.headers["Content-Type"].startswith("application/openmetrics-text")
            assert open_metrics.read().endswith(b"# EOF\n")


def test_it_can_only_be_read(exporter: Exporter) -> None:
    with serving(exporter) as url, pytest.raises(HTTPError, match="405") as caught:
        urlopen(url, data=b"x", timeout=20)  # noqa: S310
    caught.value.close()


def test_a_client_that_says_nothing_keeps_nobody_waiting(exporter: Exporter) -> None:
    with serving(exporter) as url:
        address = urlsplit(url)
        assert address.hostname
        assert address.port
        with socket.create_connection((address.hostname, address.port)):
            assert scrape(url)


def test_connections_wait_while_it_is_replaced(exporter: Exporter) -> None:
    with serving(exporter) as url:
        scrape(url)
    address = urlsplit(url)
    with socket.create_connection((str(address.hostname), address.port or 0)) as early:
        early.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        with serving(exporter):
            early.settimeout(20)
            assert early.recv(100).startswith(b"HTTP/1.0 200")


def test_it_ends_with_its_supervisor(exporter: Exporter) -> None:
    reader, writer = os.pipe()
    supervisor = os.fork()
    if not supervisor:
        exporter = Exporter("127.0.0.1", 0, 1)
        if not os.fork():
            os.close(reader)
            exporter.run()
            os._exit(0)
        os._exit(0)  # the exporter's parent is gone, and nobody killed it
    os.waitpid(supervisor, 0)
    os.close(writer)

    assert os.read(reader, 1) == b""  # the exporter held the other end until it ended
    os.close(reader)


def test_an_ipv6_address_is_shown_as_one_opens_it() -> None:
    try:
        exporter = Exporter("::1", 0, 1)
    except OSError:
        pytest.skip("no IPv6 here")
    with serving(exporter) as url:
        assert url.startswith("http://[::1]:")
        assert scrape(url)
    exporter.close()


@pytest.mark.django_db(transaction=True)
def test_a_port_in_use_ends_the_command_and_names_the_option(exporter: Exporter) -> None:
    port = urlsplit(exporter.url).port

    with pytest.raises(CommandError, match=rf"--metrics-port {port} .*in use.*--metrics-address"):
        call_command("skipper_worker", "--metrics-port", str(port), stdout=StringIO())


@pytest.mark.django_db(transaction=True)
def test_an_address_of_another_host_ends_the_command() -> None:
    with pytest.raises(CommandError, match=r"--metrics-port 0 cannot be served on 192\.0\.2\.1"):
        call_command("skipper_worker", "--metrics-port", "0", "--metrics-address", "192.0.2.1")


@pytest.mark.parametrize("port", ["-1", "65536", "http", ""])
def test_what_is_no_port_is_refused(port: str) -> None:
    with pytest.raises(CommandError, match="--metrics-port"):
        call_command("skipper_worker", "--metrics-port", port)


@pytest.mark.django_db(transaction=True)
def test_a_reloading_worker_has_no_port() -> None:
    with pytest.raises(CommandError, match="cannot be combined with --reload"):
        call_command("skipper_worker", "--metrics-port", "0", "--reload")
