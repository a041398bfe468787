"""`fedq pipeline audit`: whether the promises P1 to P4 were kept, by what nodes have traced."""
