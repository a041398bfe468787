"""`fedq publish`, `consume` and `tail`: messages in and out, at any AMQP 0-9-1 broker."""
