"""The figures of a search: its points over each path, over two paths, and in the order of proposal."""
