"""The parts of a fragment's copy on a backup: `fedq.fragments.replica` is their door."""
