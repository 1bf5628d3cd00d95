"""The training program of `rackwright demo`: copied to the shared file system and run on nodes, so its modules import each other only.

`manifest`, `corpus`, `batches` and `events` need Python's standard library only; all others need PyTorch.
"""
