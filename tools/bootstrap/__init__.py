"""Sets up a machine for rackwright. Standard library only, Python 3.9 on: it runs before the virtual environment exists."""
