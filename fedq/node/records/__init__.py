"""What the flows of a node share: its state, its clients, and what is owed to whom."""
