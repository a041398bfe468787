"""What is done to fragments and copies beside serving them: policies, stowing, checkpoints."""
