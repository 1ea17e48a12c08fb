#!lua flags=allow-oom
-- ready: all is asserted, the session goes live; answers the node's ended sessions with their beats.
local call, P, S = redis.call, KEYS[1], ARGV[1]
local s = call('HMGET', P .. 's:' .. S, 'state', 'prev')
if s[1] ~= 'opening' and s[1] ~= 'live' then
    return redis.error_reply('SESSION the session is ended or unknown')
end
call('HSET', P .. 's:' .. S, 'state', 'live')
call('HDEL', P .. 's:' .. S, 'last')
call('HINCRBY', P .. 'beat', S, 1)
local answer = {}
for X in string.gmatch(s[2] or '', '%x+') do
    local b = call('HGET', P .. 'beat', X)
    if b then
        answer[#answer + 1] = X
        answer[#answer + 1] = b
    end
end
return answer
