"""Fuzzing: what people and files can say to the program, and what its answers must be.

    python -m tests.fuzz --cases 100000

tries that many cases and writes what came of them; the quick profile is among the tests.
"""
