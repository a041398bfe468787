"""Floor 5: everything that touches the world, around a node that only decides."""

import os

# gRPC's core reads both when it is first imported.
# It writes to stderr by itself, about every peer that goes away; what matters of it is in the
# node's own log.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
# Its threads poll the sockets for whoever waits, as they did before it had an event engine, which
# hands each event from thread to thread: a frame there and one back take two thirds of the time,
# and three quarters of the processor's (`loadtests/micro/peer_streams.py`).
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")
