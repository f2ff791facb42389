"""The house's token estimate, used wherever no tokenizer and no server's count is at hand.

One token per four bytes of UTF-8, rounded up. English runs near four letters a token, and scripts
with longer encodings run at fewer letters a token, so bytes follow both better than letters do.
"""

BYTES_PER_TOKEN = 4


def text_tokens(text: str) -> int:
    """Estimated tokens of a text; 0 only for the empty text."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)
