"""The two errors a user can cause, and the exit code that a scheduler sees for each."""


class UserError(ValueError):
    """Something the user gave cannot work: says what was given, what is allowed, what to do."""

    exit_code = 2


class DataRefused(UserError):
    """The data broke its contract too often to be trusted; nothing was published."""

    exit_code = 3
