"""The network of a stack's virtual machines: a process that connects their vNICs by switches and cables, and the client for it.

The process forwards Ethernet frames between UNIX datagram sockets; it needs no root and changes nothing of the machine's network.
`client` is what other packages import; `topology` describes the network. Out of scope: VLAN filtering, spanning tree, routing, LLDP.
"""
