"""Work outside the event loop."""

import asyncio
from typing import Any

from headway.errors import InputError
from headway.serving.errors import invalid


async def in_thread(function: Any, *given: Any) -> Any:
    """Call what takes a while outside the event loop; InputError becomes a RequestError."""
    try:
        return await asyncio.to_thread(function, *given)
    except InputError as error:
        raise invalid(str(error)) from None
