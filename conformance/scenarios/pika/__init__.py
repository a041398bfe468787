"""The tutorials and examples of pika's documentation."""
