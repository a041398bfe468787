"""Floor 2: what a client's channel owes and is owed; what a session will carry to another node."""
