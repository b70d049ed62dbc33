
-- 'take' and 'look': KEYS[i] is charge i's key. ARGV[4] has all that is to be known of the charges, one
-- after the other, since each argument costs as much as a decision's arithmetic: the tag of the limit
-- behind its length, its kind, and five numbers, of which the fourth is the cost. There may be more:
-- ARGV[6] has converted states; ARGV[7] is a reservation's time-out, and
-- ARGV[7 + i] charge i's ticket with its units and amount. Answers with now, whether all fit, and each
-- state as it was met; a look does not convert a state, and says OTHER for it.
-- HELD says that they do not fit where what is missing is held by a reservation that ends no later
-- than this one would, or within a second: it may be that of a request on its way.
--
-- 'rules': the charges are those of several rules. ARGV[5] says which are whose, and after the charges'
-- keys come those of blocks: see the next file.
local count, look, hold, rules = #KEYS, what == 'look', nil, nil
if what == 'rules' then
    rules = ARGV[5]
    local way
    way, count, hold = unpack('>c1BB', rules)
    look, hold = way == 'l', hold == 1 and ARGV[7]
else
    hold = what == 'take' and ARGV[7]
end
-- What charges leave behind if they are taken: key and value in turn, as MSET wants them, and from when
-- on that is worthless. With room for three from the start: a table that grows costs as much as a
-- command.
local reply, left, fresh = { now, 1, nil, nil, nil }, { nil, nil, nil, nil, nil, nil }, { nil, nil, nil }
local specs, place, held = forced_specs or ARGV[4], 1, false
-- Whether all of it is strings.
local plain = true
-- The client converts a state that was made under another limit, or that the clock is behind by more
-- than its horizon. It sends the charge's number, what it found, the state under the charge's limit,
-- from when on that is fresh, and whether a denial stores it. What has changed meanwhile is left out.
local converted
if forced == nil and ARGV[6] and ARGV[6] ~= '' then
    converted = {}
    local from = 1
    while from <= #ARGV[6] do
        local number, found, state, ends, stays
        number, found, state, ends, stays, from = unpack('>BI4c0I4c0i7B', ARGV[6], from)
        local raw = pcall('GET', KEYS[number])
        if type(raw) == 'table' then
            raw = redis.pcall('HMGET', KEYS[number], 'h', 'r')
            raw = not raw.err and (raw[1] or '') .. (raw[2] or '')
        end
        if raw == found then
            converted[number] = { state = state, ends = ends, stays = stays == 1 }
        end
    end
end
for i = 1, count do
    local key, tag, kind, a, b, c, cost, cost_part = KEYS[i]
    tag, kind, a, b, c, cost, cost_part, place = unpack('>Hc0c1i7i7i7i7i7', specs, place)
    -- What the charge leaves behind if it fits, from when that is worthless, and the moment that a
    -- reservation remembers.
    local after, worthless, moment
    local tail, low, low_part = '', ANY, 0
    local conversion = converted and converted[i]
    -- Whether the clock moved back by more than the horizon; a log says so itself.
    local stepped = false
    if kind == 'l' then
        local limit, window = a, b
        local log, why = read_log(key, tag, window, conversion and conversion.state)
        plain = false
        if log and log.due then
            return { now, DUE, i }
        elseif log then
            if conversion then
                conversion.log = log
            end
            log.limit, log.cost, tail = limit, cost, log.records
            reply[i + 2] = tell_log(log)
            if log.used <= limit - cost then
                after, moment = log, log.at
            end
        elseif look then
            reply[i + 2] = why
        else
            return { now, why, i }
        end
    else
        local raw = forced
        if raw == nil then
            raw = conversion and conversion.state or pcall('GET', key)
            local other
            if raw then
                local last = #tag + ((kind == 'b' or kind == 'n') and 21 or 14)
                -- An error is a table, of length 0.
                if #raw < last or find(raw, tag, 1, true) ~= 1 then
                    if not look then
                        return { now, OTHER, i }
                    end
                    raw, other = false, OTHER
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
            tail = forced_tail
        end

        if kind == 'b' then
            -- A bucket owes time: whole microseconds, and parts of one more. Nothing is multiplied
            -- or divided: the client has done so for the limit and for the cost. The sums stay below
            -- 2^53, since a limit is at most 100 years (3.2e15), a debt is cut to 158 years, and
            -- a microsecond has at most 2^52 parts.
            local most, most_part, parts = a, b, c
            local at, owed, part = now, 0, 0
            if raw then
                at, owed, part = unpack('>i7I7I7', raw, #tag + 1)
                if at < now then
                    owed = owed - (now - at)
                    if owed < 0 then
                        owed, part = 0, 0
                    end
                    at = now
                else
                    stepped = at - now > most and owed + part > 0
                end
            end
            local before, before_part = owed, part
            owed, part = owed + cost, part + cost_part
            if part >= parts then
                owed, part = owed + 1, part - parts
            end
            if owed < most or (owed == most and part <= most_part) or forced ~= nil then
                if owed > 5000000000000000 then
                    owed = 5000000000000000
                end
                after, worthless, moment = pack('>i7I7I7', at, owed, part), at + owed + 1, at + owed
                low, low_part = owed, part
                -- What is reserved remembers how little was owed before this.
                local kept = tail ~= '' and {}
                for from = 1, #tail, RECORD do
                    local least, least_part = unpack('>I7I7', tail, from + LOW - 1)
                    if least > before or (least == before and least_part > before_part) then
                        least, least_part = before, before_part
                    end
                    kept[#kept + 1] = sub(tail, from, from + LOW - 2) .. pack('>I7I7', least, least_part)
                end
                tail = kept and table.concat(kept) or ''
            end
        elseif kind == 'n' then
            -- A sliding counter keeps its last moment, and the counts of that window and the one
            -- before it.
            local limit, window, phase = a, b, c
            local last, current, previous = now, 0, 0
            if raw then
                last, current, previous = unpack('>i7I7I7', raw, #tag + 1)
                stepped = last - now > 2 * window and current + previous > 0
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
                -- A count that weighs less than one unit may weigh more under a limit of a larger
                -- count: it stays until none of it is in view.
                worthless = at - into
                if current > 0 then
                    worthless = worthless + 2 * window
                elseif previous > 0 then
                    worthless = worthless + window
                end
                after, moment = pack('>i7I7I7', at, current, previous), at
            end
        else
            -- A fixed window keeps when it ends and what was taken in it. A calendar's next end is
            -- the client's to say: it names a window from `b` to `c`, and is asked again if now is
            -- not in it.
            -- For windows of the calendar the fifth number is their nominal length. None is half
            -- again as long, and the client knows where they begin.
            local limit = a
            local ends, used = now, 0
            if raw then
                ends, used = unpack('>i7I7', raw, #tag + 1)
                stepped = ends - now > (kind == 'c' and 1.5 * cost_part or 2 * b) and used > 0
            end
            if now >= ends or used == 0 then
                used = 0
                if kind == 'e' then
                    ends = now - (now + c) % b + b
                elseif kind == 'f' then
                    ends = now + b
                elseif b <= now and now < c then
                    ends = c
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

    if stepped and not conversion and forced == nil then
        if not look then
            return { now, OTHER, i }
        end
        reply[i + 2] = OTHER
    end

    if cost == 0 and (kind ~= 'b' or cost_part == 0) and forced == nil then
        -- A cost of 0 fits in every state and leaves it as it is, also one of another limit.
        after, plain = true, false
        if conversion then
            conversion.stays = false
        end
    elseif not after then
        reply[2] = 0
        if not look and tail ~= '' and unpack('>i7', tail) <= now + (hold or 1000000) then
            held = true
        end
    else
        if hold then
            local lasts, from = now + hold, #tail
            if from >= MOST_RECORDS * RECORD then
                return { now, MANY, i }
            end
            -- Where it belongs by when it times out: mostly at the end.
            while from > 0 and unpack('>i7', tail, from - RECORD + 1) > lasts do
                from = from - RECORD
            end
            local record = pack('>i7', lasts) .. ARGV[7 + i] .. pack('>i7I7I7', moment, low, low_part)
            tail = sub(tail, 1, from) .. record .. sub(tail, from + 1)
        end
        if kind == 'l' then
            after.records = tail
        elseif tail ~= '' then
            after = tag .. after .. tail
            worthless = max(worthless, (unpack('>i7', tail, #tail - RECORD + 1)))
        else
            after = tag .. after
        end
    end
    left[2 * i - 1], left[2 * i], fresh[i] = key, after or false, worthless
end
if held and not rules then
    reply[2] = HELD
end

