"""What a person has to do something about."""


class Failure(Exception):
    """A text that says where, what, and what now; shown without a traceback."""
