"""HTTP connections: accepted, bounded, and answered by a thread that is paced."""
