"""`fedq pipeline replay`: rows of an archive, published again."""
