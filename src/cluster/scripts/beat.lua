#!lua flags=allow-oom
-- beat: proof of life; answers grace, some names of `more`, and all beats.
local call, P, S = redis.call, KEYS[1], ARGV[1]
--:include term.lua
if call('HGET', P .. 's:' .. S, 'state') ~= 'live' then
    return redis.error_reply('SESSION the session is not live')
end
local meta = call('HMGET', P .. 'meta', 'term', 'grace')
if meta[1] ~= read_term() then
    return redis.error_reply('TERM the engine has begun another term')
end
local policy = string.match(call('INFO', 'memory'), '\nmaxmemory_policy:([%w-]+)')
if policy and string.sub(policy, 1, 7) == 'allkeys' then
    return redis.error_reply('POLICY ' .. policy)
end
local b = call('HINCRBY', P .. 'beat', S, 1)
if call('PUBLISH', P .. 'to:' .. S, string.format('B %.0f', b)) == 0 then
    return redis.error_reply('DEAF nobody is subscribed to the channel of the session')
end
return {meta[2] and 1 or 0, call('SRANDMEMBER', P .. 'more', 100), call('HGETALL', P .. 'beat')}
