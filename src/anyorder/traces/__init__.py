"""A generation as data: recorded, written and read, shown as a page or a picture."""
