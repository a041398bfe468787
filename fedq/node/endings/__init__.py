"""What goes when a consumer, a channel, a connection or an exclusive queue ends."""
