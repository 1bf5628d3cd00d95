"""Setup of a machine for rackwright. Standard library only, Python 3.9 or newer: it runs before the virtual environment exists."""
