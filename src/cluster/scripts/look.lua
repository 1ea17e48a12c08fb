#!lua flags=allow-oom
-- look: what people see of all sessions; changes nothing.
local call, P = redis.call, KEYS[1]
local lease = tonumber(call('HGET', P .. 'meta', 'lease') or 0)
local answer = {}
local beats = call('HGETALL', P .. 'beat')
for i = 1, #beats, 2 do
    local X = beats[i]
    local s = call('HMGET', P .. 's:' .. X, 'node', 'state', 'digest', 'reaped')
    answer[#answer + 1] = {
        X, s[1] or '', s[2] or '', beats[i + 1], s[3] or '',
        call('HLEN', P .. 'u:' .. X), call('HLEN', P .. 'w:' .. X), -1, lease, s[4] and 1 or 0,
    }
end
return answer
