"""How commands speak: options and passwords in, tables, JSON and failures out."""
