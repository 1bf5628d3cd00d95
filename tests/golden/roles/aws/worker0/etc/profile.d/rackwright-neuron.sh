# Written by rackwright; local changes are lost.
PATH=$PATH:/opt/aws/neuron/bin
