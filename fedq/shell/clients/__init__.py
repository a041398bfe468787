"""Sockets of AMQP clients: accepting, reading in turn, writing past the transport, TLS."""
