"""Tests of fedq. Their processes are its own: gRPC is in them as it is in a node."""

from fedq.shell.host.grpc_environment import settle_grpc

settle_grpc()
