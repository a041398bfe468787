"""Sockets of AMQP clients: accepting, reading first come first, writing past the transport, TLS."""
