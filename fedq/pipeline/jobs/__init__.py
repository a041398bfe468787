"""Jobs of the pipeline (docs/adr/0080): small Spark programs, each with tables and a page."""
