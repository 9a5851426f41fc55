"""Infilling with a BERT: several masks jointly, gaps of unknown length, and which order it was written in.

    python examples/infill_bert.py [MODEL]

MODEL is a folder or a name on the Hugging Face hub, by default bert-base-uncased.
"""

import sys

import anyorder

bert = anyorder.load(sys.argv[1] if len(sys.argv) > 1 else "bert-base-uncased")

print("Three masks, filled jointly:")
for filling in bert.fill("The [MASK] [MASK] sat on the [MASK].", n=5):
    print(f"  {filling.probability:.5f}  {filling.text}")

print("A gap of 1 to 5 tokens, the length chosen by score:")
for filling in bert.infill("Yesterday {} in the park.", length=range(1, 6), n=3):
    print(f"  {filling.score:.3f}  {filling.text}")

print("The order in which the surest position comes first:")
for moment in bert.stream("The [MASK] [MASK] sat on the [MASK].", order="negent"):
    print(f"  {moment.t + 1}  {moment.text}")
