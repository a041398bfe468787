"""Pages with charts in one file: no script, nothing from elsewhere, light and dark."""
