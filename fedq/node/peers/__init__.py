"""What comes from peers, and what begins and ends with a session."""
