"""What `deploy/` has, held to the tools that would read it: whatever of them is installed here."""
