"""What a text must be, as people write it: patterns, JSON schemas, words; as automata over bytes, then over tokens."""
