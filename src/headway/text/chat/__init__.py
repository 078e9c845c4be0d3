"""Chat templates: conversations as text and as ids; templates are rendered in a process of their own."""

from headway.text.chat.template import DEFAULT_TEMPLATE, END, START, Message, check_messages, render_chat, with_chat

__all__ = ["DEFAULT_TEMPLATE", "END", "START", "Message", "check_messages", "render_chat", "with_chat"]
