"""The dialects of the API: LibreTranslate's, OpenAI's, Hugging Face's and our own."""
