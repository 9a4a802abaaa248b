"""`make demo`: the whole shop with its servers. All state is in one folder, emptied at a start."""
