"""What a node knows of the readers of streams, and what it keeps at hand for them."""
