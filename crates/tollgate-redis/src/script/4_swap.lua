
-- 'swap': replaces a state that was made under other numbers, unless it has changed meanwhile.
-- ARGV[4] is the old string, or '' for a hash whose 'h' and 'r' are ARGV[5] and ARGV[6]. ARGV[7]
-- is when the new one is worthless. ARGV[8] alone is the new string; more are a hash's fields and
-- values; nothing at all makes the key new.
if what == 'swap' then
    local key = KEYS[1]
    if ARGV[4] ~= '' then
        if redis.pcall('GET', key) ~= ARGV[4] then
            return { now, 0 }
        end
    else
        local found = redis.pcall('HMGET', key, 'h', 'r')
        if found.err or (found[1] or '') ~= ARGV[5] or (found[2] or '') ~= ARGV[6] then
            return { now, 0 }
        end
    end
    redis.call('UNLINK', key)
    local lasts = ceil((ARGV[7] + late) / 1000) + 4000000000000
    if #ARGV == 8 then
        redis.call('SET', key, ARGV[8], 'PXAT', lasts)
    elseif #ARGV > 8 then
        for i = 8, #ARGV, 2 do
            redis.call('HSET', key, ARGV[i], ARGV[i + 1])
        end
        redis.call('PEXPIREAT', key, lasts)
    end
    return { now, 1 }
end
