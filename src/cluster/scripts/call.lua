#!lua
-- call: the ops of a live session, in order; answers an array with an element for each.
-- Without allow-oom: a full engine refuses it as a whole, before anything is done.
local call, P, A = redis.call, KEYS[1], ARGV
local S = A[1]
local state = call('HGET', P .. 's:' .. S, 'state')
if state ~= 'live' then
    return redis.error_reply('SESSION the session is not live')
end

-- A call of one op for a name that nobody waits for needs none of what follows.
if #A == 5 and A[2] == 'a' then
    local name = A[3]
    local kind, strict, text, limit, most = string.match(A[4], '^([nma])([sl])(%d+)/(%d+)/(%d+)$')
    local n, maxqueue = tonumber(text), tonumber(most)
    if n and n > 0 and call('EXISTS', P .. 'k:' .. name) == 0 then
        local units = P .. 'units'
        local used = call('HINCRBY', units, name, text)
        local room = maxqueue == 0 or used - n < maxqueue
        if room and used <= tonumber(limit) and (strict == 'l' or not call('HGET', P .. 'meta', 'grace')) then
            call('HINCRBY', P .. 'u:' .. S, name, text)
            return {1}
        end
        if call('HINCRBY', units, name, '-' .. text) == 0 then
            call('HDEL', units, name)
        end
        if not room then
            return {-1}
        end
        if kind == 'n' then
            return {0}
        end
    end
elseif #A == 4 and (A[2] == 'r' or A[2] == 'b') then
    local name, n = A[3], tonumber(A[4])
    if n and n > 0 and call('EXISTS', P .. 'k:' .. name) == 0 then
        local own = P .. 'u:' .. S
        local held = tonumber(call('HGET', own, name) or 0)
        if n > held then
            return {-2}
        end
        if n == held then
            call('HDEL', own, name)
        else
            call('HINCRBY', own, name, '-' .. A[4])
        end
        if call('HINCRBY', P .. 'units', name, '-' .. A[4]) == 0 then
            call('HDEL', P .. 'units', name)
        end
        return {1}
    end
end

local SIZE = {a = 4, r = 3, b = 3, c = 4, g = 2, h = 2, t = 2}
--:include ops.lua
