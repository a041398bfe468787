"""Pages and charts: text in, one document out."""
