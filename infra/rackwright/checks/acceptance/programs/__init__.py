"""Programs that run inside jobs: each a file that stands alone, Python 3.9 and its standard library, PyTorch only where it is there."""
