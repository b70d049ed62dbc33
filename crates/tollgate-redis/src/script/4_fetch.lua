
-- 'fetch': reads the state under KEYS[1] as one step. A type that changes between two commands would
-- give WRONGTYPE otherwise. Answers with 0 for no state; 1 and the string; 2 and the fields and values
-- of a hash; or FOREIGN.
--
-- ARGV[4] is a ticket of 8 bytes, or ''. With a ticket, 'fetch' also claims the state for ARGV[5]
-- microseconds: it puts 'C', 1, the end of the claim and the ticket in front of the state's tag. No
-- charge fits that tag, so no other client changes the state until its owner has converted it. While
-- another ticket has a claim, the answer is CLAIMED and how long that lasts.
--
-- 'release' removes the claim of the ticket ARGV[4], if it is still there.
if what == 'fetch' or what == 'release' then
    local CLAIMED, key, ticket = 9, KEYS[1], ARGV[4]
    local kind = call('TYPE', key).ok
    if kind == 'none' then
        return { now, 0 }
    elseif kind ~= 'string' and kind ~= 'hash' then
        return { now, FOREIGN, 1 }
    end
    local raw = kind == 'string' and call('GET', key) or call('HGET', key, 'h') or ''
    local ends, owner, state = 0, '', raw
    if #raw >= 17 and sub(raw, 1, 2) == 'C\1' then
        ends, owner = unpack('>i7c8', raw, 3)
        state = sub(raw, 18)
    end
    local function put(value)
        raw = value
        if kind == 'string' then
            call('SET', key, value, 'KEEPTTL')
        else
            call('HSET', key, 'h', value)
        end
    end
    if what == 'release' then
        if owner == ticket then
            put(state)
        end
        return { now, 1 }
    end
    if ticket ~= '' then
        -- By the server's clock, also in a test that moves its own: a claim must end by itself.
        local real = (clock[1] - 4000000000) * 1000000 + clock[2]
        if owner ~= '' and owner ~= ticket and real < ends then
            return { now, CLAIMED, ends - real }
        elseif sub(state, 1, 1) == 'T' then
            put('C\1' .. pack('>i7', real + ARGV[5]) .. ticket .. state)
        end
    end
    if kind == 'string' then
        return { now, 1, raw }
    end
    return { now, 2, call('HGETALL', key) }
end
