-- Part of call, give and reap: queues, hand over and DONE. A message is published at once.
-- `finish` writes all other changes.
-- Uses units.lua, call, P and S (the session that calls).

local LEFT = 250 -- grants and drops that hand overs in this script may still make
local queues = {} -- by index: the pairs of session and class that wait, as an array and by member
local states = {} -- session -> state, false if there is no such session
local filled = {} -- queue and pair of waits that are not written yet
local moved = {} -- session -> field of its w -> by how much its count changes
local grace, seq, seq_before

local function read_meta()
    if not seq then
        local m = call('HMGET', P .. 'meta', 'grace', 'seq')
        grace, seq = m[1], tonumber(m[2] or 1)
        seq_before = seq
    end
end

local function state_of(session)
    local s = states[session]
    if s == nil then
        s = call('HGET', P .. 's:' .. session, 'state')
        states[session] = s
    end
    return s
end

local function add_pair(q, member, score)
    local text = string.sub(member, 18)
    local class = CLASS[text]
    local p = {
        member = member,
        session = string.sub(member, 1, 16),
        field = text .. ':' .. q.name,
        key = P .. 'q:' .. member .. ':' .. q.name,
        any = class.kind == 'a',
        strict = class.strict,
        units = class.units,
        limit = class.limit,
        score = score, -- the seq of its oldest wait
        count = 0, -- its waits
    }
    q.n = q.n + 1
    q[q.n] = p
    q.by[member] = p
    return p
end

-- How many members a key has; nil: it is no sorted set, so another program has written it.
local function size_of(key)
    local n = redis.pcall('ZCARD', key)
    return type(n) == 'number' and n or nil
end

-- Reads the pairs of a name. Where a key is not what scripts write, q.wrong is that key, and nothing more is done
-- with the queue: no command may fail in the midst of a script.
local function read_pairs(q)
    local list = redis.pcall('ZRANGE', q.key, 0, -1, 'WITHSCORES')
    if list.err then
        q.wrong = q.key
        return
    end
    for i = 1, #list, 2 do
        if not CLASS[string.sub(list[i], 18)] then
            q.wrong = q.key
            return
        end
        local p = add_pair(q, list[i], tonumber(list[i + 1]))
        local count = size_of(p.key)
        if not count then
            q.wrong = p.key
        end
        p.count = count or 0
        q.waits = q.waits + p.count
    end
end

-- What an op answers for a name with such a key.
local function wrong_type(q)
    return redis.error_reply('WRONGTYPE ' .. q.wrong)
end

local function queue_of(j)
    local q = queues[j]
    if q then
        return q
    end
    local name = names[j]
    q = {j = j, name = name, key = P .. 'k:' .. name, n = 0, by = {}, waits = 0}
    queues[j] = q
    U[j] = U[j] or NUM[was[j]]
    if not nobody then
        read_pairs(q)
    end
    return q
end

-- The count of waits of pair `p` changes by `n`.
local function count_waits(q, p, n)
    local fields = moved[p.session]
    if not fields then
        fields = {}
        moved[p.session] = fields
    end
    fields[p.field] = (fields[p.field] or 0) + n
    q.waits, p.count = q.waits + n, p.count + n
end

-- Writes the waits that this script has added to pair `p`.
local function write_waits(q, p)
    local waits = p.added
    if waits then
        p.added = nil
        local n = #waits / 2
        local new = call('ZADD', p.key, unpack(waits))
        if new ~= n then
            count_waits(q, p, new - n)
        end
    end
end

-- Takes pair `p` out of the memory of this script.
local function forget_pair(q, p)
    for i = 1, q.n do
        if q[i] == p then
            table.remove(q, i)
            break
        end
    end
    q.n = q.n - 1
    q.by[p.member] = nil
end

-- Adds a wait to pair `member`, which is made if it is new. False: a key is not what scripts write.
local function add_wait(q, member, id, place)
    local p = q.by[member]
    if not p then
        p = add_pair(q, member, place)
        local count = size_of(p.key)
        if not count or (nobody and not size_of(q.key)) then
            q.wrong = count and q.key or p.key
            forget_pair(q, p)
            return false
        end
        p.count, q.waits = count, q.waits + count
        call('ZADD', q.key, place, member)
    elseif place < p.score then
        p.score = place
        call('ZADD', q.key, place, member)
    end
    local waits = p.added
    if not waits then
        waits = {}
        p.added = waits
        filled[#filled + 1] = {q, p}
    end
    waits[#waits + 1] = place
    waits[#waits + 1] = id
    count_waits(q, p, 1)
    return true
end

-- Removes pair `p` with its whole queue.
local function drop_pair(q, p)
    p.added = nil
    q.waits = q.waits - p.count
    if moved[p.session] then
        moved[p.session][p.field] = nil
    end
    call('UNLINK', p.key)
    call('ZREM', q.key, p.member)
    call('HDEL', P .. 'w:' .. p.session, p.field)
    forget_pair(q, p)
end

-- After the oldest waits of `p` went: its place is now that of the oldest that is left.
local function rank_pair(q, p)
    local head = call('ZRANGE', p.key, 0, 0, 'WITHSCORES')
    if not head[1] then
        call('ZREM', q.key, p.member)
        forget_pair(q, p)
    elseif tonumber(head[2]) ~= p.score then
        p.score = tonumber(head[2])
        p.ranked = true -- hand_over and remove_wait write it
    end
end

local function write_rank(q, p)
    if p.ranked then
        p.ranked = nil
        call('ZADD', q.key, p.score, p.member)
    end
end

-- Removes the wait `id` from pair `member`; true if it was there.
local function remove_wait(q, member, id)
    local p = q.by[member]
    if not p then
        return false
    end
    write_waits(q, p)
    if call('ZREM', p.key, id) == 0 then
        return false
    end
    count_waits(q, p, -1)
    rank_pair(q, p)
    write_rank(q, p)
    return true
end

-- The pair whose oldest wait goes next: one that fits, `m` before `a`, then the oldest.
local function next_pair(q)
    local used, best = U[q.j], nil
    for i = 1, q.n do
        local p = q[i]
        if used + p.units <= p.limit and not (p.strict and grace) then
            if not best or (best.any and not p.any) then
                best = p
            elseif best.any == p.any and
                (p.score < best.score or (p.score == best.score and p.member < best.member)) then
                best = p
            end
        end
    end
    return best
end

local function grant(q, p)
    write_waits(q, p)
    local head = call('ZPOPMIN', p.key)
    count_waits(q, p, -1)
    local text = string.format('G %s %.0f ', head[1], p.units) .. q.name
    if call('PUBLISH', P .. 'to:' .. p.session, text) > 0 then
        local j = q.j
        U[j] = U[j] + p.units
        if p.session == S and had[j] ~= nil then
            M[j] = (M[j] or NUM[had[j]]) + p.units
        else
            call('HINCRBY', P .. 'u:' .. p.session, q.name, p.units)
        end
    end
    rank_pair(q, p)
end

-- Hands the name over. False if it is not finished; then the name is in `more`. So it is where a key is wrong: then
-- all nodes learn of it by their beats.
local function hand_over(q)
    if q.wrong then
        call('SADD', P .. 'more', q.name)
        return false
    end
    if q.n == 0 then
        return true
    end
    read_meta()
    local finished = true
    local p = next_pair(q)
    while p do
        if LEFT == 0 then
            call('SADD', P .. 'more', q.name)
            finished = false
            break
        end
        LEFT = LEFT - 1
        local s = state_of(p.session)
        if p.count > 0 and (s == 'live' or s == 'opening') then -- 0: another program has deleted its waits
            grant(q, p)
        else
            drop_pair(q, p)
        end
        p = next_pair(q)
    end
    for i = 1, q.n do
        write_rank(q, q[i])
    end
    return finished
end

-- DONE to all that wait for the name with ACQ4ANY. Not bounded by LEFT, but by the 256 pairs.
local function finish_any(q)
    local sent = {}
    for i = q.n, 1, -1 do
        local p = q[i]
        if p.any then
            drop_pair(q, p)
            if not sent[p.session] then
                sent[p.session] = true
                read_meta()
                local text = string.format('D %.0f ', seq) .. q.name
                call('PUBLISH', P .. 'to:' .. p.session, text)
            end
        end
    end
end

-- Writes what was collected.
local function finish()
    for i = 1, #filled do
        write_waits(filled[i][1], filled[i][2])
    end
    for session, fields in pairs(moved) do
        local key = P .. 'w:' .. session
        for field, n in pairs(fields) do
            if n ~= 0 and call('HINCRBY', key, field, n) == 0 then
                call('HDEL', key, field)
            end
        end
    end
    if seq and seq > seq_before then
        call('HSET', P .. 'meta', 'seq', seq)
    end
    write_units(P .. 'units', U, was)
end
