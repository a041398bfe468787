"""Floor 7: the `fedq` command line. Starts things, asks the admin service, shows answers."""

import os

# gRPC reads this when it is imported. Its own lines tell of sockets and handshakes, and would stand
# between those of a node's log; what a user must know, fedq says.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
