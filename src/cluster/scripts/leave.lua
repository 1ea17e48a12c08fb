#!lua flags=allow-oom
-- leave: a session that has nothing goes.
local call, P, S = redis.call, KEYS[1], ARGV[1]
local node = call('HGET', P .. 's:' .. S, 'node')
if not node then
    return redis.error_reply('SESSION the session is unknown')
end
if call('EXISTS', P .. 'u:' .. S, P .. 'w:' .. S) > 0 then
    return redis.error_reply('HOLDS the session has units or waits')
end
call('UNLINK', P .. 's:' .. S)
call('HDEL', P .. 'beat', S)
if call('HGET', P .. 'node', node) == S then
    call('HDEL', P .. 'node', node)
end
return 1
