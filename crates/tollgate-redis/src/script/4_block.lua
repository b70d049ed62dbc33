
-- 'block': denies the key whose block is KEYS[1] for ARGV[4] microseconds; how often it was blocked
-- before stays known. 'unblock' lifts a block and forgets earlier ones. Both answer whether the key
-- was blocked before. 'forgive' is 'unblock' but for a block that was set by hand: that stays, and HELD
-- is the answer.
if what == 'block' or what == 'unblock' or what == 'forgive' then
    local raw = redis.pcall('GET', KEYS[1])
    local ends, times, forgotten, by_hand = now, 0, now, 0
    if raw then
        if type(raw) == 'table' or #raw ~= 24 or sub(raw, 1, 2) ~= 'B\1' then
            return { now, FOREIGN, 1 }
        end
        ends, times, forgotten, by_hand = unpack('>i7I7i7B', raw, 3)
    end
    local was_blocked = now < ends and 1 or 0
    if what == 'forgive' and was_blocked == 1 and by_hand == 1 then
        return { now, HELD }
    elseif what ~= 'block' then
        redis.call('DEL', KEYS[1])
        return { now, was_blocked }
    end
    if forgotten <= now then
        times = 0
    end
    ends = now + ARGV[4]
    forgotten = max(forgotten, ends)
    redis.call('SET', KEYS[1], 'B\1' .. pack('>i7I7i7B', ends, times, forgotten, 1),
        'PXAT', ceil((forgotten + late) / 1000) + 4000000000000)
    return { now, was_blocked }
end

-- 'share': changes what all nodes know, a hash, and its version 'v', which tells them to read it
-- again. ARGV[4] is a field and ARGV[5] its value, '' where there is none any more. There are at most
-- ARGV[6] fields. With ARGV[7] only if that is its value until now. Answers whether there was one.
if what == 'share' then
    local value = redis.call('HGET', KEYS[1], ARGV[4])
    local known = value and 1 or 0
    if ARGV[7] and ARGV[7] ~= value then
        return { now, 0 }
    end
    if ARGV[5] == '' then
        if known == 1 then
            redis.call('HDEL', KEYS[1], ARGV[4])
        end
    elseif known == 0 and redis.call('HLEN', KEYS[1]) > tonumber(ARGV[6]) then
        return { now, MANY, 1 }
    else
        redis.call('HSET', KEYS[1], ARGV[4], ARGV[5])
    end
    -- A moment rather than a count: it is larger also after the server has forgotten everything.
    local version = max(now + 4000000000000000, (tonumber(redis.call('HGET', KEYS[1], 'v')) or 0) + 1)
    redis.call('HSET', KEYS[1], 'v', string.format('%.0f', version))
    return { now, known }
end
