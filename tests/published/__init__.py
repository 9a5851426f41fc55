"""Folders of diffusion LMs as their authors publish them, and what the authors' own code gave."""
