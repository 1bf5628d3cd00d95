"""Virtual machines on this machine: QEMU processes and the network between them."""
