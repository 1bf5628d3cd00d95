# Written by rackwright; local changes are lost.
CUDA_HOME=/usr/local/cuda-12.9
PATH=$PATH:$CUDA_HOME/bin
export CUDA_HOME PATH
