"""Rules for drivers, CUDA, OFED, NCCL and their versions."""
