-- Adds up what nodes keep in the engine, to src/cluster/engine.md: `units` is the sum of the u:S, w:S counts the q keys,
-- k: has each pair at the place of its oldest wait, and a node has one session that is not ended. KEYS[1] is the
-- prefix. Answers a line for each thing that is wrong. What another program has written is left out.
local call, P = redis.call, KEYS[1]
local wrong, sums, counts, oldest, lines, foreign = {}, {}, {}, {}, {}, {}

local function say(...)
    wrong[#wrong + 1] = string.format(...)
end

local function hash(key)
    local flat, at = call('HGETALL', P .. key), {}
    for i = 1, #flat, 2 do
        at[flat[i]] = flat[i + 1]
    end
    return at
end

local beats, nodes, states = hash('beat'), hash('node'), {}

local function add_queue(key, session, class, name)
    if call('TYPE', P .. key)['ok'] ~= 'zset' then
        foreign[name] = true
        return
    end
    counts[session .. ' ' .. class .. ':' .. name] = call('ZCARD', P .. key)
    oldest[name .. ' ' .. session .. ':' .. class] = tonumber(call('ZRANGE', P .. key, 0, 0, 'WITHSCORES')[2])
end

local function add_line(key, name)
    if call('TYPE', P .. key)['ok'] ~= 'zset' then
        foreign[name] = true
        return
    end
    local pairs_ = call('ZRANGE', P .. key, 0, -1, 'WITHSCORES')
    for i = 1, #pairs_, 2 do
        if string.find(pairs_[i], '^%x+:[ma][sl]%d+/%d+$') then
            lines[name .. ' ' .. pairs_[i]] = tonumber(pairs_[i + 1])
        else
            foreign[name] = true
        end
    end
end

local function add_session(session)
    local s = hash('s:' .. session)
    states[session] = s.state
    if s.state ~= 'ended' and nodes[s.node or ''] ~= session then
        say('session %s is %s, and node %s has another', session, s.state or '', s.node or '')
    end
    if s.state == 'live' and s.last then
        say('live session %s has a last one', session)
    end
    if tonumber(beats[session] or 0) < 1 then
        say('session %s has no beat', session)
    end
end

local function different(what, one, other)
    for key, value in pairs(one) do
        local name = string.match(key, what == 'w' and '^%x+ [^:]*:(.*)$' or '^(.*) %x+:[^:]*$') or key
        if other[key] ~= value and not (what ~= 'units' and foreign[name]) then
            say('%s of %q: %s and %s', what, key, value, other[key] or 0)
        end
    end
end

local written, units = {}, {}
for _, key in ipairs(call('KEYS', P .. '*')) do
    key = string.sub(key, #P + 1)
    local kind, rest = string.sub(key, 1, 2), string.sub(key, 3)
    if kind == 'u:' then
        for name, n in pairs(hash(key)) do
            sums[name] = (sums[name] or 0) + n
            if tonumber(n) <= 0 or not beats[rest] then
                say('session %s has %s units of %q', rest, n, name)
            end
        end
    elseif kind == 'w:' then
        for field, n in pairs(hash(key)) do
            written[rest .. ' ' .. field] = tonumber(n)
        end
    elseif kind == 'q:' then
        add_queue(key, string.match(rest, '^(%x+):([^:]*):(.*)$'))
    elseif kind == 'k:' then
        add_line(key, rest)
    elseif kind == 's:' then
        add_session(rest)
    end
end
for name, n in pairs(hash('units')) do
    units[name] = tonumber(n)
end
different('units', sums, units)
different('units', units, sums)
different('w', counts, written)
different('w', written, counts)
different('k', oldest, lines)
different('k', lines, oldest)
for node, session in pairs(nodes) do
    if states[session] ~= 'live' and states[session] ~= 'opening' then
        say('node %s has session %s, which is %s', node, session, states[session] or 'not there')
    end
end
return wrong
