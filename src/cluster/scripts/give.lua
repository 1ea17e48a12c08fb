#!lua flags=allow-oom
-- give: the ops of a live or opening session, but never `a`; answers as call does. The beat of one that is opening
-- grows, so that others see that it lives.
local call, P, A = redis.call, KEYS[1], ARGV
local S = A[1]
local state = call('HGET', P .. 's:' .. S, 'state')
if state ~= 'live' and state ~= 'opening' then
    return redis.error_reply('SESSION the session is neither live nor opening')
end
if state == 'opening' then
    call('HINCRBY', P .. 'beat', S, 1)
end

local SIZE = {r = 3, b = 3, c = 4, g = 2, h = 2, t = 2, s = 3, w = 5}
--:include ops.lua
