"""The error of the bootstrap."""


class Failure(Exception):
    """An error that the user can resolve: place, problem, remedy. It is shown without a traceback."""
