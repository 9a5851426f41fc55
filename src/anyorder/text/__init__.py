"""Strings in, strings out: loading a model, planning a decoder, generating, choosing."""
