"""The HTTP ports, part by part."""
