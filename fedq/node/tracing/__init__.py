"""Tracing: what the tracer has noted goes to the streams of traces, and to the firehose."""
