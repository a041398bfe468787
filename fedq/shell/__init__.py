"""Floor 5: everything that touches the world, around a node that only decides."""

import os

# gRPC's core writes to stderr by itself, about every peer that goes away; what matters of it is
# in the node's own log. It reads this when it is first imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
