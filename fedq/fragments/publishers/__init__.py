"""Origins and named publishers of a fragment, and up to which number it has what they sent."""
