-- The keys of engines in memory, and the commands of Redis that the scripts of src/cluster/scripts use. engine.c loads
-- it once; each function takes an engine, a table that `make` made. Hashes answer in no particular order, as Redis's.
-- `host` has what is not a key: info(engine), publish(engine, channel, text).
local host = ...
local api, commands, compiled, texts = {}, {}, {}, 0
local E -- the engine of the call

-- Keys: `data` has for each a kind, the number of its members, and these with their values.

local function copy(value)
    local at = {}
    for member, v in pairs(value.at) do
        at[member] = v
    end
    return {kind = value.kind, n = value.n, at = at, large = value.large}
end

local function read(key, kind)
    local value = E.data[key]
    assert(not value or value.kind == kind, key)
    return value
end

-- Each write begins here: what the key was before this script is kept.
local function edit(key, kind)
    local value = read(key, kind)
    if E.before and E.before[key] == nil then
        E.before[key] = value and copy(value) or false
    end
    return value or {kind = kind, n = 0, at = {}}
end

local function put(key, value, member, v)
    if v == nil and value.at[member] ~= nil then
        value.n = value.n - 1
    elseif v ~= nil and value.at[member] == nil then
        value.n = value.n + 1
    end
    value.at[member] = v
    value.large = value.large or value.n > 512
    E.data[key] = value.n > 0 and value or nil
end

-- Puts or removes (v nil) members; how many are new, or gone.
local function change(key, kind, members, v)
    local value = edit(key, kind)
    local before = value.n
    for _, member in ipairs(members) do
        put(key, value, member, v)
    end
    return math.abs(value.n - before)
end

local function text(number)
    return type(number) == 'number' and string.format('%.17g', number) or number
end

function commands.HGET(key, field)
    local value = read(key, 'hash')
    return value and value.at[field] or false
end

function commands.HMGET(key, ...)
    local answer = {...}
    for i, field in ipairs(answer) do
        answer[i] = commands.HGET(key, field)
    end
    return answer
end

function commands.HGETALL(key)
    local value, answer = read(key, 'hash'), {}
    for field, v in pairs(value and value.at or {}) do
        answer[#answer + 1] = field
        answer[#answer + 1] = v
    end
    return answer
end

function commands.HSET(key, ...)
    local value, pairs_ = edit(key, 'hash'), {...}
    local before = value.n
    for i = 1, #pairs_, 2 do
        put(key, value, pairs_[i], pairs_[i + 1])
    end
    return value.n - before
end

function commands.HINCRBY(key, field, by)
    local value = edit(key, 'hash')
    local sum = tonumber(value.at[field] or 0) + tonumber(by)
    put(key, value, field, text(sum))
    return sum
end

function commands.HDEL(key, ...)
    return change(key, 'hash', {...}, nil)
end

-- As in Redis, a hash that was large once has buckets: the cursor is one, and more may come than was asked for.
function commands.HSCAN(key, cursor, _, count)
    local value, answer, buckets = read(key, 'hash'), {}, {}
    for field, v in pairs(value and value.at or {}) do
        local sum = 0
        for i = 1, math.min(#field, 12) do
            sum = sum + i * string.byte(field, i)
        end
        local bucket = value.large and sum % 32 or 0
        buckets[bucket] = buckets[bucket] or {}
        table.insert(buckets[bucket], field)
        table.insert(buckets[bucket], v)
    end
    for bucket = tonumber(cursor), 31 do
        for _, part in ipairs(buckets[bucket] or {}) do
            answer[#answer + 1] = part
        end
        if #answer >= 2 * tonumber(count) and bucket < 31 then
            return {tostring(bucket + 1), answer}
        end
    end
    return {'0', answer}
end

local function size(kind)
    return function(key)
        local value = read(key, kind)
        return value and value.n or 0
    end
end
commands.HLEN, commands.ZCARD = size('hash'), size('zset')

function commands.SADD(key, ...)
    return change(key, 'set', {...}, true)
end

function commands.SREM(key, ...)
    return change(key, 'set', {...}, nil)
end

function commands.SMEMBERS(key)
    local value, answer = read(key, 'set'), {}
    for member in pairs(value and value.at or {}) do
        answer[#answer + 1] = member
    end
    return answer
end

function commands.SRANDMEMBER(key, count)
    local answer = commands.SMEMBERS(key)
    for i = #answer, tonumber(count) + 1, -1 do
        answer[i] = nil
    end
    return answer
end

function commands.ZADD(key, ...)
    local value, pairs_ = edit(key, 'zset'), {...}
    local before = value.n
    for i = 1, #pairs_, 2 do
        put(key, value, pairs_[i + 1], tonumber(pairs_[i]))
    end
    return value.n - before
end

function commands.ZREM(key, ...)
    return change(key, 'zset', {...}, nil)
end

-- The members in order, or the first one alone.
local function ranked(value, first)
    local list, at = {}, value and value.at or {}
    local function before(a, b)
        return at[a] < at[b] or (at[a] == at[b] and a < b)
    end
    for member in pairs(at) do
        if not first then
            list[#list + 1] = member
        elseif not list[1] or before(member, list[1]) then
            list[1] = member
        end
    end
    if not first then
        table.sort(list, before)
    end
    return list
end

-- ZRANGE key 0 -1|0 WITHSCORES
function commands.ZRANGE(key, _, last)
    local value, answer = read(key, 'zset'), {}
    for _, member in ipairs(ranked(value, tonumber(last) == 0)) do
        answer[#answer + 1] = member
        answer[#answer + 1] = text(value.at[member])
    end
    return answer
end

function commands.ZPOPMIN(key)
    local head = commands.ZRANGE(key, 0, 0)
    if head[1] then
        commands.ZREM(key, head[1])
    end
    return head
end

function commands.EXISTS(...)
    local n = 0
    for _, key in ipairs({...}) do
        n = n + (E.data[key] and 1 or 0)
    end
    return n
end

function commands.UNLINK(...)
    local n = 0
    for _, key in ipairs({...}) do
        if E.data[key] then
            edit(key, E.data[key].kind)
            E.data[key], n = nil, n + 1
        end
    end
    return n
end

function commands.INFO()
    return host.info(E.host)
end

function commands.PUBLISH(channel, message)
    return host.publish(E.host, channel, message)
end

-- What only sums.lua calls.

function commands.KEYS()
    local answer = {}
    for key in pairs(E.data) do
        answer[#answer + 1] = key
    end
    return answer
end

function commands.TYPE(key)
    return {ok = E.data[key] and E.data[key].kind or 'none'}
end

-- Scripts. They have no names of their own beside `redis`, KEYS and ARGV.

local function call(name, ...)
    local command = commands[name]
    if not command then
        error({err = 'ERR unknown command ' .. tostring(name)}, 0)
    end
    local arguments = {...}
    for i = 1, #arguments do
        arguments[i] = text(arguments[i])
    end
    return command(unpack(arguments))
end

redis = {call = call}

function redis.pcall(...)
    local _, answer = pcall(call, ...)
    return answer
end

function redis.error_reply(message)
    return {err = message}
end

function redis.acl_check_cmd()
    return true
end

-- What an engine has, by the functions that engine.c calls.

function api.make(engine)
    return {host = engine, data = {}, undo = {}, keep = 0, loaded = {}}
end

function api.flush(e)
    e.data, e.undo = {}, {}
end

function api.forget(e)
    e.loaded = {}
end

function api.keep(e, writes)
    e.undo, e.keep = {}, writes
end

-- `e` has what `other` had before its last `lacks` scripts that wrote.
function api.follow(e, other, lacks)
    e.data, e.undo = {}, {}
    for key, value in pairs(other.data) do
        e.data[key] = copy(value)
    end
    for i = #other.undo, math.max(#other.undo - lacks + 1, 1), -1 do
        for key, value in pairs(other.undo[i]) do
            e.data[key] = value and copy(value) or nil
        end
    end
end

function api.load(e, script)
    if not compiled[script] then
        local code, message = loadstring(string.gsub(script, '^#![^\n]*', ''), '=script')
        if not code then
            return {err = 'ERR ' .. message}
        end
        texts = texts + 1
        compiled[script] = {sha = string.format('%040x', texts), run = code}
    end
    local when_full = string.find(script, '^#!lua flags=allow%-oom') or not string.find(script, '^#!')
    e.loaded[compiled[script].sha] = {run = compiled[script].run, full = when_full}
    return compiled[script].sha
end

-- Is the script there, and may it run although the engine is full?
function api.has(e, sha)
    local script = e.loaded[string.lower(sha)]
    return script ~= nil, script and script.full
end

-- Answers what the script does, and true if it was broken off.
function api.run(e, sha, key, ...)
    E, KEYS, ARGV = e, {key}, {...}
    e.before = e.keep > 0 and {} or nil
    local whole, answer = pcall(e.loaded[string.lower(sha)].run)
    if e.before and next(e.before) ~= nil then
        table.insert(e.undo, e.before)
        if #e.undo > e.keep then
            table.remove(e.undo, 1)
        end
    end
    e.before = nil
    if not whole then
        return type(answer) == 'table' and answer or {err = 'ERR ' .. tostring(answer)}, true
    end
    return answer, false
end

function api.units(e, prefix, name)
    E = e
    return tonumber(commands.HGET(prefix .. 'units', name) or 0)
end

function api.waits(e, prefix, name)
    E = e
    local n, value = 0, e.data[prefix .. 'k:' .. name]
    for pair in pairs(value and value.at or {}) do
        n = n + commands.ZCARD(prefix .. 'q:' .. pair .. ':' .. name)
    end
    return n
end

-- A key beside `meta`.
function api.left(e, prefix)
    for key in pairs(e.data) do
        if key ~= prefix .. 'meta' then
            return key
        end
    end
end

return api
