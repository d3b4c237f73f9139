"""What the best possible cache must read: Belady's rule over a recorded route. No policy that sees
only the past reads less; the daemon's share of it is what a bench reports."""

import heapq


def read_routes(path):
    """The accesses (layer, expert) in the order of decoding, as [(token, [keys of one call])]."""
    calls = []
    with open(path, encoding="ascii") as file:
        for line in file:
            token, layer, *experts = (int(word) for word in line.split())
            calls.append((token, [(layer, expert) for expert in experts]))
    return calls


def reads_of_optimum(calls, slots, first_token):
    """Experts read from `first_token` on by a cache of `slots` equal slots that knows the future:
    on a miss the key whose next use lies farthest away goes. The keys of one call are needed at
    once, so none of them goes for another."""
    accesses = [(token, call, key) for call, (token, keys) in enumerate(calls) for key in keys]
    never = len(accesses)
    next_use = [never] * len(accesses)
    last = {}
    for at in range(len(accesses) - 1, -1, -1):
        key = accesses[at][2]
        next_use[at] = last.get(key, never)
        last[key] = at
    resident = {}  # key -> its next use
    farthest = []  # (-next use, key), stale entries skipped
    reads = 0
    for at, (token, call, key) in enumerate(accesses):
        if key not in resident:
            reads += token >= first_token
            if len(resident) == slots:
                evict_farthest(resident, farthest, set(calls[call][1]))
        resident[key] = next_use[at]
        heapq.heappush(farthest, (-next_use[at], key))
    return reads


def evict_farthest(resident, farthest, needed):
    kept = []
    while True:
        entry = heapq.heappop(farthest)
        use, key = entry
        if resident.get(key) != -use:
            continue
        if key in needed:
            kept.append(entry)
            continue
        del resident[key]
        break
    for entry in kept:
        heapq.heappush(farthest, entry)
