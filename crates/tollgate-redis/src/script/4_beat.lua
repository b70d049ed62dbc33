
-- 'beat': the node ARGV[4] is there. Answers how many nodes sent a heartbeat in the last ARGV[5]
-- microseconds, and how many in the last ARGV[6]. Forgets the others; the key itself goes when all are
-- gone.
if what == 'beat' then
    call('ZADD', KEYS[1], now, ARGV[4])
    call('ZREMRANGEBYSCORE', KEYS[1], '-inf', format('(%.0f', now - ARGV[6]))
    call('PEXPIREAT', KEYS[1], format('%.0f', (now + late + ARGV[6]) / 1000 + 4000000000001))
    local seen = call('ZCOUNT', KEYS[1], format('%.0f', now - ARGV[5]), '+inf')
    return { now, seen, call('ZCARD', KEYS[1]) }
end
