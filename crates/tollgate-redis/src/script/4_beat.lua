
-- 'beat': the node ARGV[4] is there. Answers how many nodes were heard of within ARGV[5]
-- microseconds, and forgets the others; the key itself goes when all are gone.
if what == 'beat' then
    call('ZADD', KEYS[1], now, ARGV[4])
    call('ZREMRANGEBYSCORE', KEYS[1], '-inf', format('(%.0f', now - ARGV[5]))
    call('PEXPIREAT', KEYS[1], format('%.0f', (now + late + ARGV[5]) / 1000 + 4000000000001))
    return { now, call('ZCARD', KEYS[1]) }
end
