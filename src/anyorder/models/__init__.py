"""Models behind the core's protocol: our transformers, XLM files, HF masked LMs, diffusion LMs, an exact table."""

from __future__ import annotations

from anyorder.models.folder import load_model, save_model

__all__ = ["load_model", "save_model"]
