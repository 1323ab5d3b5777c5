"""The one gateway for files: atomic writes, containment, and readers that trust nothing they are given."""
