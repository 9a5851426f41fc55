// A page of traces: it opens at its first sentence, and plays.

start();
