"""What is raised for bytes of another node that are not what they should be."""


class MalformedFrameError(Exception):
    """Bytes that are no peer frame of a version this node understands; the text says why."""
