"""Several GPUs that serve many users in groups: each group holds the whole model and serves its part of the users.

One large group has the most memory for the caches, but its GPUs wait for each other in every layer. Small groups wait less, but
each reads all weights for fewer users. Which serves more tokens depends on the link, the model and the number of users.
"""

from __future__ import annotations

from dataclasses import replace

from gpuwise.questions.common.language.ask import LanguageQuery
from gpuwise.step.time.engines import usual_split

__all__ = ["describe_groups", "groupings"]


def groupings(query: LanguageQuery) -> list[tuple[int, LanguageQuery]]:
    """Return every number of equal groups above one, with the question for one of the groups. The last group may have fewer
    users than the others.
    """
    whole = query.serving
    if whole.shares:
        return []
    found = []
    for groups in range(2, min(whole.gpu_count, whole.users) + 1):
        size = whole.gpu_count // groups
        split = usual_split(whole.engine, whole.shape.heads, size) if size > 1 else ""
        if size * groups == whole.gpu_count and (split or size == 1):
            link = whole.gpu_link if size > 1 else ""
            users = -(-whole.users // groups)
            found.append(
                (groups, replace(query, serving=replace(whole, gpu_count=size, split=split, users=users, gpu_link=link)))
            )
    return found


def describe_groups(gpu_count: int, groups: int, users: int) -> str:
    """`4 groups of 2 GPUs with 16 users each`."""
    size, each = gpu_count // groups, -(-users // groups)
    one = f"{groups} single GPUs" if size == 1 else f"{groups} groups of {size} GPUs"
    return f"{one} with {each} user{'' if each == 1 else 's'} each"
