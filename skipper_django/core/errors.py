"""Every error that skipper_django raises or stores."""


class SkipperError(Exception):
    """Root of the errors of skipper_django."""


class InvalidSetting(SkipperError, ValueError):
    """A key of the SKIPPER setting cannot work; the message names the key and the remedy."""


class InvalidTaskId(SkipperError, ValueError):
    """A task id that cannot be stored and found again exactly on every database."""


class NotSerializable(SkipperError, TypeError):
    """A value that would not survive the round trip through JSON exactly."""


class PayloadTooLarge(SkipperError, ValueError):
    """Arguments or a result above SKIPPER["MAX_PAYLOAD_BYTES"]."""


class UnknownTask(SkipperError, LookupError):
    """No task definition of that name can be imported here."""


class BadArguments(SkipperError, ValueError):
    """Stored arguments that can no longer be decoded."""


class BadRow(SkipperError, ValueError):
    """A row that was edited by hand into something that cannot be run, or read."""


class TaskTimeout(SkipperError, TimeoutError):
    """The attempt ran longer than the task's timeout."""


class WorkerLost(SkipperError, RuntimeError):
    """The workers that ran the task kept dying; it is not run again by itself."""


class BadBackoff(SkipperError, ValueError):
    """A backoff callable raised, or answered something that is no delay."""


class HiddenError(SkipperError):
    """Stands in logs for an error whose text tells the value of a sensitive argument."""


class MemberNameTaken(SkipperError, RuntimeError):
    """Another live member has the chosen name; the message says which process that is."""
