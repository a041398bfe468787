"""What all jobs are made of: directories, tables that a snapshot names, sessions, progress."""
