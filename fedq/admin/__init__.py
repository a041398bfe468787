"""Floor 6: answers for people and tools, from views of a node; asks it for what is to change."""
