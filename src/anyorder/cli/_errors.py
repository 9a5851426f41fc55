"""What is said of an error, and the code the program leaves with."""

from __future__ import annotations

from anyorder.errors import AnyorderError, UsageError, first_line, no_memory, raised_in

FAILURE, USAGE, OURS = 1, 2, 70  # of the last kind there should be none: the message asks to report it
LONELY = ("DistBackendError", "DistNetworkError", "DistStoreError")  # torch's, of a process that others have left


def for_people(error: Exception) -> tuple[int, str]:
    """The exit code, and a sentence that says what, where, and what to do."""
    raised = raised_in(error)
    if isinstance(error, AnyorderError):
        return USAGE if isinstance(error, UsageError) else FAILURE, str(error)
    if isinstance(error, OSError):
        what = f"can not use {error.filename}" if error.filename is not None else "reading or writing failed"
        return FAILURE, f"{what}: {error.strerror or error}"
    if no_memory(error):
        return FAILURE, "there is not enough memory for this: try a smaller --beam, fewer --lengths, or shorter texts"
    if type(error).__name__ in LONELY or "/gloo/" in str(error):
        return FAILURE, (
            "another process of this training is gone, so this one can not go on; the last checkpoint is intact: start "
            f"the same command again on all machines, which torchrun --max-restarts does ({first_line(error)})"
        )
    if isinstance(error, RecursionError):
        return FAILURE, "something in the input is nested too deeply: make it flatter"
    if isinstance(error, ValueError) and raised.startswith(("anyorder.core.", "anyorder.models.")):
        return FAILURE, str(error)  # written for whoever composes a decoder
    return OURS, (
        f"this is a mistake of anyorder's own, in {raised}: {type(error).__name__}: {error}\n"
        "Please report it, with the command; ANYORDER_TRACEBACK=1 shows more."
    )
