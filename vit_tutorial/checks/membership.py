"""An error that the reader's `in` raises: among tensors it compares values, and stops where these do not fit."""

from __future__ import annotations

import dis

from .running import raised_by_reader


def stops_at_in(error: BaseException | None) -> bool:
    """True if torch's error came from the reader's own `in` or `not in`, and from no function below it."""
    if not isinstance(error, RuntimeError) or not raised_by_reader(error):
        return False
    traceback = error.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return dis.opname[traceback.tb_frame.f_code.co_code[traceback.tb_lasti]] == "CONTAINS_OP"
