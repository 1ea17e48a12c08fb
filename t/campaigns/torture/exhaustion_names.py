"""Names that collide under hash functions in common use, any number of them.

All of them lead such a function from its start to one and the same state, whatever the number of
buckets. Each is made of stages that lead from one state to another in two ways: `stages` choices
make 2^stages names. No byte of theirs is a blank, a line end or NUL, so that they will do as keys of
the text protocol, too.
"""

import struct

M32 = 0xFFFFFFFF
FORBIDDEN = frozenset(b" \r\n\0")


def fnv1a_32(data):
    h = 0x811C9DC5
    for byte in data:
        h = (h ^ byte) * 0x01000193 & M32
    return h


def fnv1a_64_low(data):
    """The low half of the 64-bit hash, which depends on nothing else."""
    h = 0x84222325
    for byte in data:
        h = (h ^ byte) * 0x1B3 & M32
    return h


def djb2(data):
    h = 5381
    for byte in data:
        h = h * 33 + byte & M32
    return h


def _rotate(x, bits):
    return (x << bits | x >> 32 - bits) & M32


def _murmur_mix(k):
    return _rotate(k * 0xCC9E2D51 & M32, 15) * 0x1B873593 & M32


def _murmur_unmix(k):
    k = k * pow(0x1B873593, -1, 1 << 32) & M32
    return _rotate(k, 17) * pow(0xCC9E2D51, -1, 1 << 32) & M32


def _murmur_block(h, block):
    return _rotate(h ^ _murmur_mix(block), 13) * 5 + 0xE6546B64 & M32


def murmur3(data):
    """MurmurHash3_x86_32 with seed 0, of whole blocks."""
    h = 0
    for (block,) in struct.iter_unpack("<I", data):
        h = _murmur_block(h, block)
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & M32
    h = (h ^ h >> 13) * 0xC2B2AE35 & M32
    return h ^ h >> 16


def _fnv_stages(start, prime, stages, rng):
    """Two blocks of four bytes that meet again, found by a birthday search, from state to state."""
    pairs, h = [], start
    letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
    for _ in range(stages):
        seen = {}
        while True:
            block = bytes(rng.choices(letters, k=4))
            state = h
            for byte in block:
                state = (state ^ byte) * prime & M32
            other = seen.setdefault(state, block)
            if other != block:
                pairs.append((other, block))
                h = state
                break
    return pairs


def _murmur_stages(stages, rng):
    """Two blocks each; the second of the one undoes what the first ones differ in."""
    pairs, h = [], 0
    while len(pairs) < stages:
        first, other, second = (rng.randrange(1 << 32) for _ in range(3))
        states = [_murmur_block(h, first), _murmur_block(h, other)]
        undoing = _murmur_unmix(_murmur_mix(second) ^ states[0] ^ states[1])
        ways = struct.pack("<II", first, second), struct.pack("<II", other, undoing)
        if first == other or FORBIDDEN & set(ways[0] + ways[1]):
            continue
        pairs.append(ways)
        h = _murmur_block(states[0], second)
    return pairs


def colliding(kind, count, rng):
    """`count` names of one length; all have the same hash of that kind."""
    stages = max(1, (count - 1).bit_length())
    if kind == "djb2":
        pairs = [(b"Ez", b"FY")] * stages
    elif kind == "fnv1a-32":
        pairs = _fnv_stages(0x811C9DC5, 0x01000193, stages, rng)
    elif kind == "fnv1a-64":
        pairs = _fnv_stages(0x84222325, 0x1B3, stages, rng)
    else:
        pairs = _murmur_stages(stages, rng)
    return [b"".join(pairs[i][n >> i & 1] for i in range(stages)) for n in range(count)]


HASHES = {"djb2": djb2, "fnv1a-32": fnv1a_32, "fnv1a-64": fnv1a_64_low, "murmur3": murmur3}
