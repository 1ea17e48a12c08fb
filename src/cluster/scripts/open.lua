#!lua flags=allow-oom
-- open: a node begins a session; answers the term and whether there is grace, or why not.
local call, P, A = redis.call, KEYS[1], ARGV
local S, node, where, digest, last = A[1], A[2], A[3], A[4], A[7]
local lease, seq = tonumber(A[5]), tonumber(A[6])
--:include term.lua
if not lease or not seq or #A % 2 == 0 then
    return redis.error_reply('ERR open has other arguments')
end

-- What a user of the engine must be allowed. The names are those of the ACL line.
local key, channel = P .. 'meta', P .. 'to:' .. S
local needed = {
    {'info'}, {'evalsha', 'x', '1', key}, {'script|load', 'x'}, {'subscribe', channel},
    {'publish', channel, 'x'}, {'hget', key, 'x'}, {'hmget', key, 'x'}, {'hset', key, 'x', 'x'},
    {'hdel', key, 'x'}, {'hincrby', key, 'x', '1'}, {'hgetall', key}, {'hlen', key},
    {'hscan', key, '0'}, {'exists', key}, {'unlink', key}, {'sadd', key, 'x'}, {'srem', key, 'x'},
    {'sismember', key, 'x'}, {'srandmember', key}, {'zadd', key, '1', 'x'}, {'zrem', key, 'x'},
    {'zrange', key, '0', '0'}, {'zpopmin', key}, {'zcard', key}, {'zscore', key, 'x'},
}
for _, command in ipairs(needed) do
    local name = command[1]
    local allowed
    if name == 'script|load' then
        allowed = redis.acl_check_cmd('script', 'load', 'x')
    else
        allowed = redis.acl_check_cmd(unpack(command))
    end
    if not allowed then
        return {'ACL', name}
    end
end

local meta = call('HMGET', key, 'version', 'term', 'lease', 'grace', 'seq')
if meta[1] and meta[1] ~= '1' then
    return {'VERSION', meta[1]}
end
local grace = meta[4]
local term = read_term()
if meta[2] ~= term then
    call('HSET', key, 'term', term, 'grace', 1)
    grace = '1'
end

if call('EXISTS', P .. 's:' .. S) == 1 then
    return redis.error_reply('SESSION there is such a session')
end
if last ~= '-' then
    local l = call('HMGET', P .. 's:' .. last, 'state', 'reaped')
    if l[2] or (not l[1] and not grace) then
        return {'REAPED'}
    end
end

-- The X: sessions that the node knows to be over, if their beat is still the one that it saw.
local beats, over = {}, {}
local all = call('HGETALL', P .. 'beat')
for i = 1, #all, 2 do
    beats[all[i]] = all[i + 1]
end
for i = 8, #A, 2 do
    if A[i + 1] == '-' or beats[A[i]] == A[i + 1] then
        over[A[i]] = true
    end
end

local open = call('HGETALL', P .. 'node') -- node -> its session that is not ended
local mine, others = nil, {}
for i = 1, #open, 2 do
    local X = open[i + 1]
    if open[i] == node then
        mine = X
    elseif not over[X] then
        others[#others + 1] = X
        others[#others + 1] = beats[X] or '0'
    end
end
if mine and not over[mine] then
    local other = call('HGET', P .. 's:' .. mine, 'where')
    if other ~= where then
        return {'NODE', mine, other or '', beats[mine] or '0', tonumber(meta[3] or lease)}
    end
end
if others[1] and tonumber(meta[3]) ~= lease then
    return {'LEASE', tonumber(meta[3] or 0), unpack(others)}
end

-- The session is made. Those that are over, and the node's own, end; what they have stays.
if mine then
    over[mine] = true
end
for X in pairs(over) do
    local s = call('HMGET', P .. 's:' .. X, 'state', 'node')
    if s[1] and s[1] ~= 'ended' then
        call('HSET', P .. 's:' .. X, 'state', 'ended')
        call('HDEL', P .. 'node', s[2])
    end
end
local prev = {}
for i = 1, #all, 2 do
    local s = call('HMGET', P .. 's:' .. all[i], 'state', 'node')
    if s[1] == 'ended' and s[2] == node then
        prev[#prev + 1] = all[i]
    end
end
call('HSET', key, 'version', 1, 'lease', lease, 'seq', math.max(tonumber(meta[5] or 1), seq, 1))
call('HSET', P .. 's:' .. S, 'node', node, 'state', 'opening', 'where', where, 'digest', digest,
    'prev', table.concat(prev, ' '))
if last ~= '-' then
    call('HSET', P .. 's:' .. S, 'last', last)
end
call('HSET', P .. 'node', node, S)
call('HSET', P .. 'beat', S, 1)
return {'OPEN', term, grace and 1 or 0}
