-- Part of call and give: reads the ops, carries them out, answers.
-- Uses call, P, S, A, state and SIZE (op -> its arguments in A; others are not allowed).
--:include units.lua

-- Each name in A becomes its index; for an op that is not allowed, `whole` is false.
local index, whole = {}, true
local last, i, count, total = #A, 2, 0, 0
while i <= last do
    local size, name = SIZE[A[i]], A[i + 1]
    if not size or i + size - 1 > last then
        whole = false
        break
    end
    local j = index[name]
    if not j then
        total = total + 1
        j = total
        index[name], names[j] = j, name
    end
    A[i + 1] = j
    i = i + size
    count = count + 1
end

-- What the ops are is checked before anything is done: nothing may break off a script in its midst.
-- Each number in A becomes one. Returns an error, if any.
local function check()
    local wrong = not whole or count > 250
    local at = 2
    for _ = 1, count do
        local op = A[at]
        if op == 'a' then
            local class = CLASS[A[at + 2]]
            wrong = wrong or not class or not class.maxqueue
        elseif op == 'r' or op == 'b' or op == 's' then
            local n = NUM[A[at + 2]]
            A[at + 2] = n
            wrong = wrong or not n
        elseif op == 'w' then
            local place, class = NUM[A[at + 4]], CLASS[A[at + 2]]
            A[at + 4] = place
            wrong = wrong or not place or not class or class.kind == 'n' or class.maxqueue
        end
        if (op == 's' or op == 'w') and state ~= 'opening' then
            return redis.error_reply('SESSION only an opening session tells what it has')
        end
        at = at + SIZE[op]
    end
    return wrong and redis.error_reply('ERR these are not ops of this script')
end

if not whole or count > 250 then
    return check()
elseif count == 0 then
    return {}
end

local own = P .. 'u:' .. S
was = call('HMGET', P .. 'units', unpack(names))
had = call('HMGET', own, unpack(names))

-- Where sessions are fewer than names, they are asked first: mostly none of them waits for anything.
local function any_waits()
    local beat = P .. 'beat'
    if total < 2 * call('HLEN', beat) then
        return true
    end
    local beats, keys = call('HGETALL', beat), {}
    for k = 1, #beats, 2 do
        keys[#keys + 1] = P .. 'w:' .. beats[k]
    end
    return call('EXISTS', unpack(keys)) > 0
end
if any_waits() then
    look_for_waits(1)
end

-- The ended sessions of this node that still have something; S takes over what it tells again.
local heirs
local function earlier()
    if heirs then
        return heirs
    end
    heirs = {}
    for X in string.gmatch(call('HGET', P .. 's:' .. S, 'prev') or '', '%x+') do
        local e = {session = X, key = P .. 'u:' .. X, now = {}}
        e.has_units = call('EXISTS', e.key) == 1
        e.has_waits = call('EXISTS', P .. 'w:' .. X) == 1
        if e.has_units then
            e.old = call('HMGET', e.key, unpack(names))
        end
        if e.has_units or e.has_waits then
            heirs[#heirs + 1] = e
        end
    end
    return heirs
end

-- What has changed in U changes in M.
local function take_over()
    for j = 1, total do
        if U[j] then
            M[j] = NUM[had[j]] + U[j] - NUM[was[j]]
        end
    end
end

-- While nobody waits and nobody must, no queue is looked at: the loop ends before the first op that must, or
-- that `check` may refuse. It writes nothing, and changes U alone: S has as much more or less as all have.
local answers, k, in_grace = {}, 1, nil
i = 2
while nobody and i <= last do
    local op, j = A[i], A[i + 1]
    local used = U[j] or NUM[was[j]]
    if op == 'a' then
        local class = CLASS[A[i + 2]]
        local maxqueue = class and class.maxqueue
        if not maxqueue then
            break
        end
        local strict, n = class.strict, class.units
        if strict and in_grace == nil then
            in_grace = call('HGET', P .. 'meta', 'grace')
        end
        if maxqueue > 0 and used >= maxqueue then
            answers[k] = -1
        elseif used + n <= class.limit and not (strict and in_grace) then
            U[j] = used + n
            answers[k] = 1
        elseif class.kind == 'n' then
            answers[k] = 0
        else
            break
        end
        i = i + 4
    elseif op == 'r' or op == 'b' then
        local n = NUM[A[i + 2]]
        if not n then
            break
        elseif n > NUM[had[j]] + used - NUM[was[j]] then
            answers[k] = -2
        else
            U[j] = used - n
            answers[k] = 1
        end
        i = i + 3
    elseif op == 's' and state == 'opening' and not earlier()[1] then
        local n = NUM[A[i + 2]]
        if not n then
            break
        end
        U[j] = used + n
        answers[k] = 1
        i = i + 3
    elseif op == 'g' then
        answers[k] = {used, 0}
        i = i + 2
    elseif op == 'c' then
        answers[k] = 0
        i = i + 4
    else
        break
    end
    k = k + 1
end
if k > count then
    local alike = true
    for j = 1, total do
        alike = alike and had[j] == was[j]
    end
    local set, gone = changes(U, was)
    write_changes(P .. 'units', set, gone)
    if not alike then
        take_over()
        set, gone = changes(M, had)
    end
    write_changes(own, set, gone)
    return answers
end
local refused = check()
if refused then
    return refused
end
take_over()

--:include queues.lua
states[S] = state

-- Takes the units of a class for S, if they fit and are granted now.
local function take(j, class)
    local used, n = U[j] or NUM[was[j]], class.units
    if used + n > class.limit then
        return false
    end
    if class.strict then
        read_meta()
        if grace then
            return false
        end
    end
    U[j], M[j] = used + n, (M[j] or NUM[had[j]]) + n
    return true
end

-- `a` where somebody waits, or must wait.
local function acquire(i, j)
    local class, q = CLASS[A[i + 2]], queue_of(j)
    local finished = hand_over(q)
    if q.wrong then
        return wrong_type(q)
    end
    if class.maxqueue > 0 and U[j] + q.waits >= class.maxqueue then
        return -1
    end
    if finished and take(j, class) then
        return 1
    end
    if class.kind == 'n' then
        return 0
    end
    local member = S .. ':' .. class.text
    if not q.by[member] and q.n >= 256 then
        return -1
    end
    read_meta()
    if not add_wait(q, member, A[i + 3], seq + 1) then
        return wrong_type(q)
    end
    seq = seq + 1
    return seq
end

local function release(i, j)
    local n, held = A[i + 2], M[j] or NUM[had[j]]
    if n > held then
        return -2
    end
    U[j], M[j] = (U[j] or NUM[was[j]]) - n, held - n
    local q = queue_of(j)
    if A[i] == 'r' and not q.wrong then
        finish_any(q)
    end
    return hand_over(q) and 1 or q.wrong and wrong_type(q) or 2
end

local function take_back(j)
    local q = queue_of(j)
    if nobody and not size_of(q.key) then -- `t` must see if a key that was wrong is right again
        q.wrong = q.key
    end
    if hand_over(q) then
        call('SREM', P .. 'more', names[j])
        return 1
    end
    return q.wrong and wrong_type(q) or 2
end

local function assert_units(j, n)
    local rest = n
    for _, e in ipairs(earlier()) do
        if e.has_units then
            local there = e.now[j] or NUM[e.old[j]]
            local part = math.min(there, rest)
            e.now[j], rest = there - part, rest - part
        end
    end
    M[j], U[j] = (M[j] or NUM[had[j]]) + n, (U[j] or NUM[was[j]]) + rest
    return 1
end

local function assert_wait(i, j)
    local class, id, q = A[i + 2], A[i + 3], queue_of(j)
    if q.wrong then
        return wrong_type(q)
    end
    for _, e in ipairs(earlier()) do
        if e.has_waits and remove_wait(q, e.session .. ':' .. class, id) then
            break
        end
    end
    return add_wait(q, S .. ':' .. class, id, A[i + 4]) and 1 or wrong_type(q)
end

-- For people: the units and waits of a name, by node.
local function by_node(j)
    local nodes, of, answer, told = {}, {}, {}, {[S] = M[j]}
    for _, e in ipairs(heirs or {}) do
        told[e.session] = e.now[j]
    end
    local function node_of(X)
        local node = call('HGET', P .. 's:' .. X, 'node') or X
        if not of[node] then
            of[node] = {0, 0}
            nodes[#nodes + 1] = node
        end
        return of[node]
    end
    local beats = call('HGETALL', P .. 'beat')
    for k = 1, #beats, 2 do
        local X = beats[k]
        local n = told[X] or tonumber(call('HGET', P .. 'u:' .. X, names[j]) or 0)
        if n > 0 then
            local sum = node_of(X)
            sum[1] = sum[1] + n
        end
    end
    local q = queue_of(j)
    if q.wrong then
        return wrong_type(q)
    end
    for k = 1, q.n do
        local sum = node_of(q[k].session)
        sum[2] = sum[2] + q[k].count
    end
    table.sort(nodes)
    for _, node in ipairs(nodes) do
        answer[#answer + 1] = node
        answer[#answer + 1] = of[node][1]
        answer[#answer + 1] = of[node][2]
    end
    return answer
end

while k <= count do
    local op, j = A[i], A[i + 1]
    if op == 'a' then
        answers[k] = acquire(i, j)
    elseif op == 'r' or op == 'b' then
        answers[k] = release(i, j)
    elseif op == 'c' then
        local q = queue_of(j)
        answers[k] = q.wrong and wrong_type(q) or remove_wait(q, S .. ':' .. A[i + 2], A[i + 3]) and 1 or 0
    elseif op == 't' then
        answers[k] = take_back(j)
    elseif op == 's' then
        answers[k] = assert_units(j, A[i + 2])
    elseif op == 'w' then
        answers[k] = assert_wait(i, j)
    elseif op == 'g' then
        local q = queue_of(j)
        answers[k] = q.wrong and wrong_type(q) or {U[j], q.waits}
    else
        answers[k] = by_node(j)
    end
    i = i + SIZE[op]
    k = k + 1
end

finish()
write_units(own, M, had)
for _, e in ipairs(heirs or {}) do
    if e.has_units then
        write_units(e.key, e.now, e.old)
    end
end
return answers
