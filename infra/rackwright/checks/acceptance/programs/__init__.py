"""Programs that run inside jobs: standalone files, Python 3.9 and its standard library; PyTorch only if installed."""
