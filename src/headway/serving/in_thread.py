"""Work outside the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headway.errors import InputError
from headway.serving.errors import invalid

READERS = ThreadPoolExecutor(4, "headway-reader")
"""What reads requests has threads of its own, so that a crowd of long ones does not hold up the small questions."""


async def in_thread(function: Callable[..., Any], *given: Any) -> Any:
    """Call what takes a while outside the event loop; InputError becomes a RequestError."""
    try:
        return await asyncio.get_running_loop().run_in_executor(READERS, function, *given)
    except InputError as error:
        raise invalid(str(error)) from None
