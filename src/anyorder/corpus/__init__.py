"""More than one process or machine: corpora in shards, on local processes or on Ray; classes for Ray's own datasets."""

from anyorder.corpus.task import Fill, Generate, Infill, Score, Translate

__all__ = ["Fill", "Generate", "Infill", "Score", "Translate"]
