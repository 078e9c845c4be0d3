"""Help with headings: ``--help`` shows the options that most people need, ``--help-all`` shows them all."""

from typing import Any

import click

OTHER = "Other"
"""The heading of options without one."""


class Headed(click.Option):
    """An option under a heading; ``common`` options are in the short help too."""

    def __init__(self, *names: Any, heading: str = OTHER, common: bool = True, **more: Any):
        super().__init__(*names, **more)
        self.heading, self.common = heading, common


class HeadedCommand(click.Command):
    """A command whose help groups options by heading, in the order of each heading's first option."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        every = click.Option(["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_all)
        every.help = "Show every option and exit."
        return [*super().get_params(ctx), every]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            shown = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if shown is not None and (ctx.meta.get(__name__) or getattr(param, "common", True)):
                found.setdefault(getattr(param, "heading", OTHER), []).append(shown)
        others = found.pop(OTHER, [])
        for heading, lines in [*found.items(), (OTHER, others)]:
            with formatter.section(heading):
                formatter.write_dl(lines)


def _show_all(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[__name__] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()
