"""What a node of a Galera cluster needs: it may lag behind the others."""
