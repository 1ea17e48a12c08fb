-- Engines in memory: their keys, the commands of Redis that the scripts of src/cluster/scripts use, those that nodes
-- send, and connections. engine.c loads it once, with sums.lua, and calls the functions of `api`. Hashes answer in no
-- particular order, as Redis's.
local sums = assert(loadstring((...), '=sums.lua'))
local api, commands, verbs, compiled, texts = {}, {}, {}, {}, 0
local E -- the engine of the call
local FULL, MISCONF, NOREPLICAS, READONLY, LOADING, BUSY, DENIED, EVICTS = 1, 2, 3, 4, 5, 6, 7, 8 -- enum fake_trouble

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
    if value and value.kind ~= kind then
        error({err = 'WRONGTYPE Operation against a key holding the wrong kind of value'}, 0)
    end
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
    local policy = E.trouble == EVICTS and 'allkeys-lru' or 'noeviction'
    return string.format('redis_version:7.0.15\r\nrun_id:%s\r\nmaxmemory_policy:%s\r\nloading:%d\r\n'
        .. 'role:%s\r\nmaster_replid:%s\r\ncluster_enabled:0\r\n', E.run_id, policy,
        E.trouble == LOADING and 1 or 0, E.replica and 'slave' or 'master', E.replid)
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

-- Answers, and connections. A connection has at most one channel.

local function bulk(bytes)
    return string.format('$%d\r\n', #bytes) .. bytes .. '\r\n'
end

local function reply(value)
    if type(value) == 'number' then
        return string.format(':%d\r\n', value)
    elseif type(value) == 'string' then
        return bulk(value)
    elseif type(value) ~= 'table' then
        return value and ':1\r\n' or '$-1\r\n'
    elseif value.err or value.ok then
        return (value.err and '-' .. value.err or '+' .. value.ok) .. '\r\n'
    end
    local parts = {string.format('*%d\r\n', #value)}
    for i, part in ipairs(value) do
        parts[i + 1] = reply(part)
    end
    return table.concat(parts)
end

function commands.PUBLISH(channel, message)
    local reached = 0
    for _, link in ipairs(E.links) do
        if link.channel == channel then
            link.out = link.out .. reply({'message', channel, message})
            reached = reached + 1
        end
    end
    return reached
end

function api.connect(e)
    local link = {engine = e, input = '', out = ''}
    table.insert(e.links, link)
    return link
end

function api.hang_up(link)
    for i, other in ipairs(link.engine and link.engine.links or {}) do
        if other == link then
            table.remove(link.engine.links, i)
            break
        end
    end
    link.engine = nil
end

function api.closed(link)
    return not link.engine
end

function api.take(link)
    local out = link.out
    link.out = ''
    return out
end

-- The words of the first command, and how many bytes it has; nil: it is not all there.
local function command_of(input)
    local _, at, count = string.find(input, '^%*(%d+)\r\n')
    local words = {}
    for i = 1, tonumber(count or 0) do
        local _, to, len = string.find(input, '^%$(%d+)\r\n', at + 1)
        if not to or #input < to + len + 2 then
            return nil
        end
        at = to + len + 2
        words[i] = string.sub(input, to + 1, to + len)
    end
    return words[1] and words, at
end

-- Notes a command that no node may send.
local function misused(what, ...)
    E.misuse = E.misuse or what .. ': ' .. table.concat({...}, ' ')
end

-- Runs a script and answers.
local function run(script, key, ...)
    KEYS, ARGV = {key}, {...}
    E.before = E.keep > 0 and {} or nil
    local whole, answer = pcall(script.run)
    if E.before and next(E.before) ~= nil then
        table.insert(E.undo, E.before)
        if #E.undo > E.keep then
            table.remove(E.undo, 1)
        end
    end
    E.before = nil
    local err = type(answer) == 'table' and answer.err or not whole and 'ERR ' .. tostring(answer)
    if err and (not whole or string.find(err, '^ERR') or string.find(err, 'only an opening')) then
        misused('a script refuses with ' .. err, ...)
    end
    return err and {err = err} or answer
end

-- Redis quotes the arguments of commands that it does not know.
function verbs.AUTH(link, password)
    if E.trouble == DENIED then
        return {err = "ERR unknown command 'AUTH', with args beginning with: '" .. password .. "'"}
    end
    link.known = not E.password or password == E.password -- without a password any is good
    return link.known and {ok = 'OK'} or {err = 'WRONGPASS invalid username-password pair or user is disabled.'}
end

function verbs.CONFIG() -- as for words that no setting has
    return {}
end

verbs.INFO = commands.INFO

function verbs.SCRIPT(_, _, script)
    if not compiled[script] then
        texts = texts + 1
        compiled[script] = {
            sha = string.format('%040x', texts),
            run = assert(loadstring(string.gsub(script, '^#![^\n]*', ''), '=script')),
            when_full = string.find(script, '^#!lua flags=allow%-oom'),
        }
    end
    E.loaded[compiled[script].sha] = compiled[script]
    return compiled[script].sha
end

function verbs.SUBSCRIBE(link, channel)
    link.channel = channel
    return {'subscribe', channel, 1}
end

local refusals = {
    [FULL] = "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
    [MISCONF] = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    [NOREPLICAS] = 'NOREPLICAS Not enough good replicas to write.',
    [READONLY] = "READONLY You can't write against a read only replica.",
    [LOADING] = 'LOADING Redis is loading the dataset in memory',
    [BUSY] = 'BUSY Redis is busy running a script.',
}

function verbs.EVALSHA(_, sha, count, key, ...)
    local script = E.loaded[sha]
    if not script then
        return {err = 'NOSCRIPT No matching script. Please use EVAL.'}
    end
    local refusal = refusals[E.replica and READONLY or E.trouble]
    if refusal and not (E.trouble == FULL and script.when_full and not E.replica) then
        return {err = refusal}
    end
    if count ~= '1' or key ~= E.prefix then
        misused('the key of a script is wrong', sha, count, key, ...)
    end
    return run(script, key, ...)
end

local function serve(link, name, ...)
    if E.password and not link.known and name ~= 'AUTH' then
        return {err = 'NOAUTH Authentication required.'}
    end
    if not verbs[name] or (link.channel and name ~= 'SUBSCRIBE') then
        misused('a command that no node sends', name, ...)
        return {err = 'ERR unknown command'}
    end
    local reads = name == 'EVALSHA' or name == 'SCRIPT'
    if (E.trouble == LOADING and reads) or (E.trouble == BUSY and name ~= 'AUTH') then
        return {err = refusals[E.trouble]}
    end
    return verbs[name](link, ...)
end

function api.feed(link, bytes)
    E, link.input = link.engine, link.input .. bytes
    while link.engine do
        local words, size = command_of(link.input)
        if not words then
            return
        end
        link.input = string.sub(link.input, size + 1)
        local answer = reply(serve(link, unpack(words)))
        link.out = link.out .. answer -- messages to itself stand before the answer
    end
end

-- The life of an engine, and faults.

local function new_id(e)
    local digits = {}
    for i = 1, 40 do
        e.seed = e.seed * 16807 % 2147483647
        digits[i] = string.format('%x', e.seed % 16)
    end
    return table.concat(digits)
end

function api.new(prefix, seed, password)
    local e = {prefix = prefix, seed = seed % 2147483646 + 1, links = {}, data = {}, undo = {}, keep = 0, loaded = {}}
    e.password = password
    e.run_id, e.replid, e.trouble = new_id(e), new_id(e), 0
    return e
end

function api.free(e)
    while e.links[1] do
        api.hang_up(e.links[1])
    end
end

function api.restart(e, with_data)
    api.free(e)
    api.forget(e)
    if with_data == 0 then
        api.flush(e)
    end
    e.run_id, e.replid = new_id(e), new_id(e)
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

-- It has what `other` had before its last `lacks` scripts that wrote.
function api.replica(other, lacks, seed)
    local e = api.new(other.prefix, seed, other.password)
    e.replica, e.replid = true, other.replid
    for key, value in pairs(other.data) do
        e.data[key] = copy(value)
    end
    for i = #other.undo, math.max(#other.undo - lacks + 1, 1), -1 do
        for key, value in pairs(other.undo[i]) do
            e.data[key] = value and copy(value) or nil
        end
    end
    return e
end

function api.promote(e)
    e.replica, e.replid = false, new_id(e)
end

function api.trouble(e, trouble)
    e.trouble = trouble
end

-- Another program writes the key of a name's queue, or deletes it.
function api.spoil(e, name, spoils)
    local key = e.prefix .. 'k:' .. name
    if spoils or e.data[key] and e.data[key].kind == 'string' then
        e.data[key] = spoils and {kind = 'string', n = 1, at = {}} or nil
    end
end

-- Looks.

function api.check(e)
    E, KEYS = e, {e.prefix}
    local wrong = sums()
    return wrong[1] and table.concat(wrong, '; ')
end

function api.misuse(e)
    return e.misuse
end

function api.units(e, name)
    E = e
    return tonumber(commands.HGET(e.prefix .. 'units', name) or 0)
end

function api.waits(e, name)
    E = e
    local n, value = 0, e.data[e.prefix .. 'k:' .. name]
    for pair in pairs(value and value.at or {}) do
        n = n + commands.ZCARD(e.prefix .. 'q:' .. pair .. ':' .. name)
    end
    return n
end

-- A key beside `meta`.
function api.left(e)
    for key in pairs(e.data) do
        if key ~= e.prefix .. 'meta' then
            return key
        end
    end
end

return api
