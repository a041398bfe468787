"""Floor 1: AMQP 0-9-1, the server's side, without I/O: bytes to commands, methods to bytes.

`connection` is the way in, `commands` what comes out of it; `deliveries` writes what is sent once
for each message; `methods`, `content`, `strings` and `values` are the encodings, for both sides.
"""
