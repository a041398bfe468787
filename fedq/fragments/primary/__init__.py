"""The parts of a fragment as its primary serves it: `fedq.fragments.fragment` is their door."""
