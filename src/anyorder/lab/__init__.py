"""The lab: the paper's tables and findings, benchmarks, and other systems token for token."""
