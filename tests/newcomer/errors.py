"""What goes wrong with a machine itself, apart from what a test asserts about the product."""


class MachineError(Exception):
    """A machine could not be built, started, reached or removed. The text says what to do where something can be done."""
