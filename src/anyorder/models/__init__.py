"""Models behind the core's protocol: our transformers, XLM files, HF masked LMs, diffusion LMs, an exact table."""
