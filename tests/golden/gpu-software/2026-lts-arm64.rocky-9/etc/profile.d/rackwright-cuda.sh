# Written by rackwright; local changes are lost.
CUDA_HOME=/usr/local/cuda-13.0
PATH=$PATH:$CUDA_HOME/bin
export CUDA_HOME PATH
