"""Studies behind decisions that were taken: each answered one question, and can be run again."""
