"""Power cuts on real nodes: what each process wrote and synced is written down, and the rest taken.

`make powercut` starts clusters under load, kills all nodes at once and rebuilds each data directory
to what a disk may have kept at some moment before: everything that was synced, and of the rest what
the dice say. Then the nodes must start by themselves and deliver what clients know to be owed.
`tests/faults` cuts power more coarsely, and one node at a time, among many other faults.
"""
