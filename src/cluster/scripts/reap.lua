#!lua flags=allow-oom
-- reap: gives back what an ended session X has, up to 250 names and waits a call.
-- The cursor is "u" or "w", for the hash that is read, and HSCAN's; "0" begins. `s:X` keeps it: calls that are sent
-- together go on one behind the other.
local call, P, S, X, b, cursor = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local s = call('HMGET', P .. 's:' .. S, 'state', 'node')
if s[1] ~= 'live' and s[1] ~= 'opening' then
    return redis.error_reply('SESSION the session is neither live nor opening')
end
local x = call('HMGET', P .. 's:' .. X, 'node', 'state', 'last', 'cursor')
if not x[1] then
    call('HDEL', P .. 'beat', X)
    return {0, '0', {}}
end
if call('HGET', P .. 'beat', X) ~= b then
    return {0, '0', {}}
end
cursor = x[4] or cursor

local function end_session(session, node)
    call('HSET', P .. 's:' .. session, 'state', 'ended')
    if call('HGET', P .. 'node', node) == session then
        call('HDEL', P .. 'node', node)
    end
end

if x[2] ~= 'ended' then
    end_session(X, x[1])
end
if x[1] ~= s[2] then
    local last = x[3]
    call('HSET', P .. 's:' .. X, 'reaped', 1)
    if last and call('EXISTS', P .. 's:' .. last) == 1 then
        call('HSET', P .. 's:' .. last, 'reaped', 1)
    end
    local other = call('HGET', P .. 'node', x[1])
    if other then
        local o = call('HMGET', P .. 's:' .. other, 'state', 'last')
        if o[1] == 'opening' and o[2] and (o[2] == X or o[2] == last) then
            end_session(other, x[1])
        end
    end
end

--:include units.lua
--:include queues.lua
local room, index = 250, {}
local broken, is_broken = {}, {} -- names whose hand over is not finished
local held, waiting = P .. 'u:' .. X, P .. 'w:' .. X

-- Reads from the hash `key` what there is room for. Returns its fields, as an array, with their values,
-- and the cursor that goes on; a round begins again with 0 while the hash is there.
local function read_some(key, from)
    local got = call('HSCAN', key, from, 'COUNT', room)
    local list, fields, values = got[2], {}, {}
    for i = 1, #list, 2 do
        if not values[list[i]] then
            if #fields == room then
                break -- what is left over comes in another round
            end
            fields[#fields + 1] = list[i]
            values[list[i]] = tonumber(list[i + 1])
        end
    end
    room = room - #fields
    return fields, values, got[1]
end

local function load_new(some)
    local first = #names + 1
    for _, name in ipairs(some) do
        if not index[name] then
            names[#names + 1] = name
            index[name] = #names
        end
    end
    if #names >= first then
        local used = call('HMGET', P .. 'units', unpack(names, first))
        for i = 1, #used do
            was[first + i - 1] = used[i]
        end
        look_for_waits(first)
    end
end

local function hand_over_or_note(j)
    if not hand_over(queue_of(j)) and not is_broken[j] then
        is_broken[j] = true
        broken[#broken + 1] = names[j]
    end
end

local function give_back_units(from)
    local some, values, next = read_some(held, from)
    if some[1] then
        load_new(some)
        call('HDEL', held, unpack(some))
        for _, name in ipairs(some) do
            local j = index[name]
            U[j] = NUM[was[j]] - values[name]
        end
        if not nobody then
            for _, name in ipairs(some) do
                hand_over_or_note(index[name])
            end
        end
    end
    return next
end

local function give_back_waits(from)
    local fields, _, next = read_some(waiting, from)
    local some = {}
    for i, field in ipairs(fields) do
        some[i] = string.sub(field, string.find(field, ':', 1, true) + 1)
    end
    load_new(some)
    for i, field in ipairs(fields) do
        local q = queue_of(index[some[i]])
        local p = q.by[X .. ':' .. string.sub(field, 1, -#some[i] - 2)]
        if p then
            drop_pair(q, p)
        else -- another program has taken the pair from k:NAME
            call('HDEL', waiting, field)
            call('UNLINK', P .. 'q:' .. X .. ':' .. field)
        end
    end
    for i = 1, #some do
        hand_over_or_note(index[some[i]])
    end
    return next
end

local phase, at = string.sub(cursor, 1, 1), string.sub(cursor, 2)
if phase ~= 'w' then
    at = give_back_units(phase == 'u' and at or '0')
    phase = 'u'
    if call('EXISTS', held) == 0 then
        phase, at = 'w', '0'
    end
end
if phase == 'w' and room > 0 then
    at = give_back_waits(at)
end
finish()

local left = call('HLEN', held) + call('HLEN', waiting)
if left > 0 then
    call('HSET', P .. 's:' .. X, 'cursor', phase .. at)
    return {left, phase .. at, broken}
end
call('UNLINK', P .. 's:' .. X)
call('HDEL', P .. 'beat', X)
return {0, '0', broken}
