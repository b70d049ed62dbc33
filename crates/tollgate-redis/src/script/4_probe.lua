
-- 'probe': runs every command that decisions use, on a key of its own, so that a server or a user that
-- rejects one of them is found before a decision needs it. Leaves nothing behind. It begins with SET:
-- after its first write, a script may write to a server that has no memory left.
if what == 'probe' then
    local key = KEYS[1]
    local ends = format('%.0f', (now + late) / 1000 + 4000000001000)
    call('SET', key, 'p', 'PXAT', ends)
    call('MSET', key, 'p')
    call('PEXPIREAT', key, ends)
    call('TYPE', key)
    call('GET', key)
    call('UNLINK', key)
    call('HSET', key, 'h', 'p', 'r', 'p')
    call('PEXPIREAT', key, ends)
    call('HGET', key, 'h')
    call('HMGET', key, 'h', 'r')
    call('HGETALL', key)
    call('HLEN', key)
    call('HDEL', key, 'r')
    call('EXISTS', key)
    call('DEL', key)
    return { now, 1 }
end
