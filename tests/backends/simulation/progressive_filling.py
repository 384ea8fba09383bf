"""Reference implementation of max-min fair sharing: progressive filling, recomputed at every change.

It is simple and slow, in exact fractions, without the link clocks and heaps of the tested code.
"""

from __future__ import annotations

from fractions import Fraction


def max_min_rates(taken, capacities):
    """Return max-min fair rates: increase all rates equally; when a link is full, freeze its flows.

    ``taken``: per flow the links it takes; ``capacities``: bytes per second by link.
    """
    rates = dict.fromkeys(taken, Fraction(0))
    rising = set(taken)
    left = {link: Fraction(capacity) for link, capacity in capacities.items()}
    while rising:
        users = {link: sum(link in taken[flow] for flow in rising) for link in left}
        step = min(left[link] / count for link, count in users.items() if count)
        for flow in rising:
            rates[flow] += step
        for link, count in users.items():
            left[link] -= step * count
        full = {link for link, count in users.items() if count and left[link] == 0}
        rising = {flow for flow in rising if not full & set(taken[flow])}
    return rates


def end_times(flows, capacities, cancelled):
    """Return the end time of every flow that is not cancelled.

    ``flows``: (number, link or None, bytes, time at which it is ready); ``cancelled``: number -> time.
    """
    ends, now = {}, Fraction(0)
    waiting = {number: (link, Fraction(size), Fraction(ready)) for number, link, size, ready in flows}
    moving = {}
    stops = {number: Fraction(at) for number, at in cancelled.items()}
    while waiting or moving:
        rates = max_min_rates({n: (link,) for n, (link, _) in moving.items()}, capacities)
        moments = [ready for _, _, ready in waiting.values()]
        moments += [now + size / rates[n] for n, (_, size) in moving.items()]
        moments += [at for n, at in stops.items() if n in waiting or n in moving]
        then = max(min(moments), now)
        moving = {n: (link, size - rates[n] * (then - now)) for n, (link, size) in moving.items()}
        now = then
        for n, (_, size) in list(moving.items()):
            if size <= 0:
                ends[n] = now
                del moving[n]
        for n, at in stops.items():
            if at <= now:
                waiting.pop(n, None)
                moving.pop(n, None)
        for n, (link, size, ready) in list(waiting.items()):
            if ready <= now:
                del waiting[n]
                if size == 0 or link is None:
                    ends[n] = now
                else:
                    moving[n] = (link, size)
    return ends
