"""What becomes of exceptions: contained, or noted, set aside and told (ADR 0035, 0042)."""
