"""What survives a power cut: the journal's files, and the small files beside it."""
