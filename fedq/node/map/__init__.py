"""What a committed change of the cluster map means for the machines of this node."""
