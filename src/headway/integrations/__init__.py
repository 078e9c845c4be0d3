"""Adapters to other engines and libraries, one file each.

An adapter imports its library inside functions, so that ``import headway`` loads none of them.
"""
