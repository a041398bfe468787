"""`fedq top`: what a cluster is busy with, from the difference of two looks."""
