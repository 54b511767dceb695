"""Errors that are one line to the user, and the exit code that a scheduler sees for each."""


class UserError(ValueError):
    """Something the user gave cannot work: says what was given, what is allowed, what to do."""

    exit_code = 2


class InvalidData(UserError):
    """The data broke its contract too often to be trusted; nothing was published."""

    exit_code = 3


class EnvironmentCheckFailed(UserError):
    """The machine, or a service that it needs, is not ready for the stages."""

    exit_code = 1


class RegistryUnavailable(UserError):
    """The tracking server does not answer. Nobody's mistake: a failure that may pass."""

    exit_code = 1
