"""The model server of `rackwright demo STACK serve`, and its load: mounted into pods, so its modules import the training program only.

`torch_model` needs PyTorch; all others need Python's standard library only. `serve` imports `torch_model` when it starts.
"""
