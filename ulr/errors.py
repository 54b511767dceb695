"""Errors that a user sees as one line, each with the exit code for a scheduler."""


class UserError(ValueError):
    """A setting, option or input is unusable: the message says what is allowed, and the fix."""

    exit_code = 2


class InvalidData(UserError):
    """The data broke its contract too often; nothing was published."""

    exit_code = 3


class DamagedTable(InvalidData):
    """A file of a published table is missing, short or altered; its stage rebuilds it."""


class TemporaryFailure(UserError):
    """The same command may succeed later: lost workers, a full disk, a service without answer."""

    exit_code = 1


class LockTaken(TemporaryFailure):
    """Another process is writing the same folder of the warehouse."""


class PublishedByAnotherRun(TemporaryFailure):
    """Another run has published the same partition since this one began."""


class EnvironmentCheckFailed(TemporaryFailure):
    """The machine or a required service is not ready for the stages."""


class RegistryUnavailable(TemporaryFailure):
    """The tracking server does not answer."""
