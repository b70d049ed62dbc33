
-- 'take' and 'look': KEYS[i] is charge i's key, ARGV[2i + 2] the tag of its limit and ARGV[2i + 3]
-- the limit's numbers and the cost. After the last, a reservation has its time-out, and then for
-- each charge its ticket with its units and amount. Answers with now, whether all fit, and each
-- state as it was met; a look does not bring a state under other numbers, and says OTHER for it.
-- HELD says that they do not fit where what is missing is held by a reservation that ends no later
-- than this one would, or within a second: it may be that of a request on its way.
--
-- 'rules': the charges are those of several rules. The last argument says which are whose, and after
-- the charges' keys come those of blocks: see the next file.
local count, look, hold, rules = #KEYS, what == 'look', nil, nil
if what == 'rules' then
    rules = ARGV[#ARGV]
    local way
    way, count, hold = unpack('>c1BB', rules)
    look, hold = way == 'l', hold == 1 and ARGV[2 * count + 4]
else
    hold = what == 'take' and ARGV[2 * count + 4]
end
-- With room for one charge from the start: a table that grows costs as much as a command.
local reply, taken, fresh, tails = { now, 1, false }, { false }, { 0 }, { '' }
local held = false
for i = 1, count do
    local key, tag, spec = KEYS[i], ARGV[2 * i + 2], ARGV[2 * i + 3]
    local kind = sub(spec, 1, 1)
    -- What the charge leaves behind if it fits, from when that is worthless, and the moment that a
    -- reservation remembers.
    local after, worthless, moment, tail
    if kind == 'l' then
        local limit, window, cost = unpack('>I7I7I7', spec, 2)
        local log, why = read_log(key, tag, window)
        if log and log.due then
            return { now, DUE, i }
        elseif log then
            reply[i + 2] = tell_log(log, limit, cost)
            tail = log.records
            if log.used <= limit - cost then
                after, moment = log, log.at
            end
        elseif look then
            reply[i + 2] = why
        else
            return { now, why, i }
        end
    else
        local raw, from = forced, #tag + 1
        if raw == nil then
            raw, tail = pcall('GET', key), ''
            local other
            if raw then
                local last = #tag + ((kind == 'b' or kind == 'n') and 21 or 14)
                if type(raw) == 'table' or find(raw, tag, 1, true) ~= 1 or #raw < last then
                    -- Made under other numbers. The client scales it, and asks again with what it found
                    -- and what that comes to after the spec's numbers.
                    local start = kind == 'b' and 37 or 30
                    if look then
                        raw, other = false, OTHER
                    elseif #spec < start then
                        return { now, OTHER, i }
                    else
                        local length = unpack('>I4', spec, start)
                        if type(raw) == 'table' then
                            local found = redis.pcall('HMGET', key, 'h', 'r')
                            raw = not found.err and (found[1] or '') .. (found[2] or '')
                        end
                        if sub(spec, start + 4, start + 3 + length) ~= raw then
                            return { now, OTHER, i }
                        end
                        raw = sub(spec, start + 4 + length)
                    end
                end
                if raw and #raw > last then
                    tail, raw = sub(raw, last + 1), sub(raw, 1, last)
                    if unpack('>i7', tail) <= now then
                        return { now, DUE, i }
                    end
                end
            end
            reply[i + 2] = other or raw
        else
            tail, spec = forced_tail, forced_spec
        end

        if kind == 'b' then
            -- A bucket owes time: whole microseconds, and parts of one more. Nothing is multiplied
            -- or divided: the client has done so for the limit and for the cost. The sums stay below
            -- 2^53, since a limit is at most 100 years (3.2e15), a debt is cut to 158 years, and
            -- a microsecond has at most 2^52 parts.
            local most, most_part, parts, cost, cost_part = unpack('>I7I7I7I7I7', spec, 2)
            local at, owed, part = now, 0, 0
            if raw then
                at, owed, part = unpack('>i7I7I7', raw, from)
                if at < now then
                    owed = owed - (now - at)
                    if owed < 0 then
                        owed, part = 0, 0
                    end
                    at = now
                end
            end
            owed, part = owed + cost, part + cost_part
            if part >= parts then
                owed, part = owed + 1, part - parts
            end
            if owed < most or (owed == most and part <= most_part) or forced ~= nil then
                if owed > 5000000000000000 then
                    owed = 5000000000000000
                end
                after, worthless, moment = pack('>i7I7I7', at, owed, part), at + owed + 1, at
            end
        elseif kind == 'n' then
            -- A sliding counter keeps its last moment, and the counts of that window and the one
            -- before it.
            local limit, window, phase, cost = unpack('>I7I7I7I7', spec, 2)
            local last, current, previous = now, 0, 0
            if raw then
                last, current, previous = unpack('>i7I7I7', raw, from)
            end
            local at = max(now, last)
            local into = (last + phase) % window + at - last
            if into >= window then
                previous = into < 2 * window and current or 0
                current, into = 0, into % window
            end
            local left = limit - current - cost
            local fits = left >= 0
            if fits and previous > left then
                -- floor(previous x in_view / window) <= left, without dividing: previous x in_view
                -- is less than (left + 1) x window. Each product is hi x 2^50 + lo, exact for
                -- a <= 2^50 and b < 2^52: cut at 25 bits, no product of halves and no sum of them
                -- exceeds 2^53.
                local function product(a, b)
                    local a_high, b_high = floor(a / 33554432), floor(b / 33554432)
                    local a_low, b_low = a - a_high * 33554432, b - b_high * 33554432
                    local cross = a_high * b_low + a_low * b_high
                    local carry = floor(cross / 33554432)
                    local low = (cross - carry * 33554432) * 33554432 + a_low * b_low
                    local over = floor(low / 1125899906842624)
                    return a_high * b_high + carry + over, low - over * 1125899906842624
                end
                local high, low = product(previous, window - into)
                local most_high, most_low = product(left + 1, window)
                fits = high < most_high or (high == most_high and low < most_low)
            end
            if fits or forced ~= nil then
                current = min(current + cost, 1125899906842624)
                -- A count stops weighing when count x in_view < window.
                worthless = at - into
                if current > 0 then
                    worthless = worthless + 2 * window - ceil(window / current) + 1
                elseif previous > 0 then
                    worthless = worthless + window - ceil(window / previous) + 1
                end
                after, moment = pack('>i7I7I7', at, current, previous), at
            end
        else
            -- A fixed window keeps when it ends and what was taken in it. A calendar's next end is
            -- the client's to say: it names a window from `a` to `b`, and is asked again if now is
            -- not in it.
            local limit, a, b, cost = unpack('>I7i7i7I7', spec, 2)
            local ends, used = now, 0
            if raw then
                ends, used = unpack('>i7I7', raw, from)
            end
            if now >= ends or used == 0 then
                used = 0
                if kind == 'e' then
                    ends = now - (now + b) % a + a
                elseif kind == 'f' then
                    ends = now + a
                elseif a <= now and now < b then
                    ends = b
                else
                    return { now, CALENDAR, i }
                end
            end
            if used <= limit - cost or forced ~= nil then
                after = pack('>i7I7', ends, min(used + cost, 9007199254740992))
                worthless, moment = ends, ends
            end
        end
    end

    if not after then
        reply[2] = 0
        if not look and tail ~= '' and unpack('>i7', tail) <= now + (hold or 1000000) then
            held = true
        end
    elseif hold then
        local lasts, from = now + hold, #tail
        if from >= MOST_RECORDS * RECORD then
            return { now, MANY, i }
        end
        -- Where it belongs by when it times out: mostly at the end.
        while from > 0 and unpack('>i7', tail, from - RECORD + 1) > lasts do
            from = from - RECORD
        end
        local record = pack('>i7', lasts) .. ARGV[2 * count + 4 + i] .. pack('>i7', moment)
        tail = sub(tail, 1, from) .. record .. sub(tail, from + 1)
    end
    taken[i], fresh[i], tails[i] = after, worthless, tail
end
if held and not rules then
    reply[2] = HELD
end
