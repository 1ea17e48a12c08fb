-- Part of call, give and reap: names and their units. Names have indices; what a script changes of them is
-- collected in arrays and written at the end, so that many ops cost few commands.
local names = {}
local was = {} -- by index: the units in all sessions as they were read; false for 0
local had = {} -- by index: the units of S, likewise; empty in reap
local U, M = {}, {} -- by index: both as they are now, nil where nothing has looked yet
local nobody = true -- nobody waited for any name that was loaded

-- Numbers, by their text: each is converted once.
local NUM = setmetatable({[false] = 0}, {__index = function(t, text)
    local n = tonumber(text)
    if n and n >= 0 then
        t[text] = n
        return n
    end
end})

-- Classes, by their text, which may have a maxqueue behind it: each is parsed once.
local CLASS = setmetatable({}, {__index = function(t, text)
    local class, kind, strict, units, limit, most = string.match(text, '^(([nma])([sl])(%d+)/(%d+))/?(%d*)$')
    if class then
        t[text] = {
            text = class,
            kind = kind,
            strict = strict == 's',
            units = tonumber(units),
            limit = tonumber(limit),
            maxqueue = tonumber(most),
        }
        return t[text]
    end
end})

-- Asks whether anybody waits for names[first] and those behind it.
local function look_for_waits(first)
    local keys, prefix = {}, P .. 'k:'
    for j = first, #names do
        keys[#keys + 1] = prefix .. names[j]
    end
    nobody = call('EXISTS', unpack(keys)) == 0 and nobody
end

-- What has changed of `now`, beside `old`: an array of names with their values, and one of names without units.
local function changes(now, old)
    local set, n, gone, g, texts = {}, 0, {}, 0, {}
    for j = 1, #names do
        local value = now[j]
        if value and value ~= NUM[old[j]] then
            if value > 0 then
                local text = texts[value]
                if not text then
                    text = string.format('%.0f', value)
                    texts[value] = text
                end
                set[n + 1], set[n + 2] = names[j], text
                n = n + 2
            else
                g = g + 1
                gone[g] = names[j]
            end
        end
    end
    return set, gone
end

-- Writes these to a hash. Redis searches a small hash from its beginning for each field, but not one that ever
-- had a value of more than 64 bytes: where many fields are written, the first gets such a value before its own.
local function write_changes(key, set, gone)
    if #set > 16 then
        call('HSET', key, set[1], string.rep('0', 65), unpack(set))
    elseif set[1] then
        call('HSET', key, unpack(set))
    end
    if gone[1] then
        call('HDEL', key, unpack(gone))
    end
end

local function write_units(key, now, old)
    write_changes(key, changes(now, old))
end
