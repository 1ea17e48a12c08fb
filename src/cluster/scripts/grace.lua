#!lua flags=allow-oom
-- grace: a node has seen grace for a lease; it ends, if the term is still the one that the node means.
local call, P, S, term = redis.call, KEYS[1], ARGV[1], ARGV[2]
--:include term.lua
if call('HGET', P .. 's:' .. S, 'state') ~= 'live' then
    return redis.error_reply('SESSION the session is not live')
end
if call('HGET', P .. 'meta', 'term') ~= term or read_term() ~= term then
    return 0
end
call('HDEL', P .. 'meta', 'grace')
return 1
