"""All clients in one process: rounds in one compiled loop, on threads, or as lanes of one vmap."""
