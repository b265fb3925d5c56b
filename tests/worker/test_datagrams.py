"""Datagrams between the processes of a host: who hears them, and what they leave behind."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from pathlib import Path

import pytest

from skipper_django import datagrams
from skipper_django.core.hint import Hint


@pytest.fixture(autouse=True)
def own_directory(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    directory = tmp_path_factory.mktemp("s")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(directory))
    return directory / f"skipper-{os.geteuid()}"


def of_another_process(inbox: datagrams.Inbox, name: str) -> datagrams.Inbox:
    """Nobody writes to the inboxes of the own process."""
    place = Path(inbox.path)
    inbox.path = str(place.with_name(f"{place.name.partition('.')[0]}.1.{name}"))
    place.rename(inbox.path)
    return inbox


def test_a_socket_that_was_left_behind_is_removed(own_directory: Path) -> None:
    directory = datagrams.directory_of(True)
    assert directory == str(own_directory)
    left = datagrams.Inbox(directory, "channel")
    left._socket.close()
    foreign = own_directory / "channel.1.abc"
    os.rename(left.path, foreign)

    datagrams.send(directory, "channel", Hint())

    assert not foreign.exists()


@pytest.mark.parametrize("age", [0, 3600], ids=["lately", "long ago"])
def test_inboxes_that_come_and_go_are_noticed(own_directory: Path, age: float) -> None:
    """The directory is not read each time, least of all where its last change was long ago."""
    directory = datagrams.directory_of(True)
    assert directory is not None
    inboxes: dict[str, datagrams.Inbox] = {}

    def reached() -> list[str]:
        changed = time.time() - age + next(changes)
        os.utime(directory, (changed, changed))
        for _ in range(3):
            datagrams.send(directory, "channel", Hint())
        return [name for name, inbox in inboxes.items() if len(inbox.read()) == 3]

    changes = itertools.count()
    assert reached() == []
    for name in ("first", "second"):
        inboxes[name] = of_another_process(datagrams.Inbox(directory, "channel"), name)
        assert reached() == list(inboxes)
    inboxes.pop("first").close()
    assert reached() == ["second"]
    inboxes.pop("second").close()


def test_a_hint_reaches_every_inbox_of_its_channel_in_other_processes(own_directory: Path) -> None:
    directory = datagrams.directory_of(True)
    assert directory is not None
    inboxes = [datagrams.Inbox(directory, channel) for channel in ("a", "a", "b")]
    for number, inbox in enumerate(inboxes):
        of_another_process(inbox, str(number))

    for _ in range(3):
        datagrams.send(directory, "a", Hint(5, 6, True))

    assert [inbox.read() for inbox in inboxes] == [[Hint(5, 6, True)] * 3] * 2 + [[]]
    for inbox in inboxes:
        inbox.close()


def test_an_inbox_that_is_full_keeps_nobody_waiting(own_directory: Path) -> None:
    directory = datagrams.directory_of(True)
    assert directory is not None
    inbox = datagrams.Inbox(directory, "a")
    os.rename(inbox.path, own_directory / "a.1.x")
    inbox.path = str(own_directory / "a.1.x")

    for _ in range(5_000):
        datagrams.send(directory, "a", Hint())

    assert inbox.read()
    inbox.close()


def test_a_directory_that_others_may_write_to_is_not_used(own_directory: Path) -> None:
    own_directory.mkdir(mode=0o700)
    own_directory.chmod(0o777)

    assert datagrams.directory_of(True) is None


def test_a_directory_may_be_chosen(tmp_path: Path) -> None:
    assert datagrams.directory_of(str(tmp_path)) == str(tmp_path)
    assert datagrams.directory_of(str(tmp_path / "missing")) is None
    assert datagrams.directory_of(False) is None
