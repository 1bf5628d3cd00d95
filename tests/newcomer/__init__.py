"""A plain Debian in a virtual machine, on which an ordinary user follows the README."""
