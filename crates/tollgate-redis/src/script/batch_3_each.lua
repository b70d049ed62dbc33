end

-- Answers with each request's own answer. One that cannot be decided yet (states of other numbers, say,
-- which the client has to scale) changes nothing, and the next one of the same key must not come before it:
-- it is put off, and so is whoever shares a key with that one. Their answer is false. Requests
-- that share no key may change places, and nobody can tell.
local FAILED = 8
local sizes, replies, put_off = ARGV[2], {}, nil
local first_key = 1
for number = 1, #sizes do
    local size, way = string.byte(sizes, number), 'take'
    if size >= 128 then
        size, way = size - 128, 'look'
    end
    local last_key = first_key + size - 1
    local waits = false
    if put_off then
        for i = first_key, last_key do
            waits = waits or put_off[KEYS[i]]
        end
    end
    local reply, is_decided = false, false
    if not waits then
        local keys, args = { spread(KEYS, first_key, last_key) }, { '', way, '', ARGV[3 + number] }
        -- What fails for one request (no memory left, before anything was written) is no answer to another.
        local is_whole
        is_whole, reply = guarded(decide, keys, args, way)
        if not is_whole then
            reply = { now, FAILED, 0 }
        end
        local verdict = reply[2]
        is_decided = verdict == 1 or verdict == 0 or verdict == HELD
        for i = 3, size + 2 do
            -- What a look has met.
            if is_decided and reply[i] == OTHER then
                reply, is_decided = { now, OTHER, i - 2 }, false
            end
        end
    end
    if not is_decided then
        put_off = put_off or {}
        for i = first_key, last_key do
            put_off[KEYS[i]] = true
        end
    end
    replies[number] = reply
    first_key = last_key + 1
end
return replies
