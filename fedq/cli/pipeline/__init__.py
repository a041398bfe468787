"""Commands about the data pipeline."""
