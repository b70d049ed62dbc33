
-- 'change': one key whose state is changed whatever it holds. ARGV[4] is the charge with no cost, as
-- below. ARGV[5] says what:
--   back    gives back the amount in ARGV[6]
--   return  gives back the amount in ARGV[6] of what a node borrowed and did not spend: of a
--           bucket's, what is sure to be owed for it still
--   due     only ends the reservations that have timed out and gives them back, as all of these do
--   end     ends the reservation ARGV[6]: if it is open, gives back the amount in ARGV[7], or takes
--           the charge in ARGV[8]; if it is not, takes the charge in ARGV[9]
--   reset   makes the key new; open reservations stay open
-- An amount is two numbers (a bucket's debt; or units and 0) and the moment of the take.
--
-- What is taken, nothing at times, is taken by the code below, whether it is there or not: `forced`
-- is the state it finds, `forced_tail` the records.
local forced, forced_tail, forced_specs, known
if what == 'change' then
    local key, change = KEYS[1], ARGV[5]
    local tag, kind, limit, window, third = unpack('>Hc0c1i7i7i7', ARGV[4])
    local log, words, records = nil, nil, ''

    if kind == 'l' then
        local why
        log, why = read_log(key, tag, window)
        if not log then
            return { now, why, 1 }
        end
        records, known = log.records, log.next > log.first
    else
        local raw = redis.pcall('GET', key)
        if raw then
            local last = #tag + ((kind == 'b' or kind == 'n') and 21 or 14)
            if type(raw) == 'table' or sub(raw, 1, #tag) ~= tag or #raw < last then
                return { now, OTHER, 1 }
            end
            words, records, known = sub(raw, #tag + 1, last), sub(raw, last + 1), true
            -- The clock moved back by more than the horizon: the client re-dates the state. The
            -- next decision does so for a window of the calendar.
            local at, first, second = unpack('>i7I7', words)
            second = #words == 21 and unpack('>I7', words, 15) or 0
            local horizon = kind == 'b' and limit or 2 * window
            if kind ~= 'c' and at - now > horizon and first + second > 0 then
                return { now, OTHER, 1 }
            end
        end
    end

    -- Takes units out of the entries up to `moment`, the latest first, and lays what follows anew.
    local function log_back(units, moment)
        local index = log.find(log.view, function(at) return at > moment end)
        local low, left, gone = index, min(units, log.used), {}
        while left > 0 and low > log.view do
            low = low - 1
            local _, total = log.entry(low)
            gone[low] = min(left, (total - log.total_before(low)) % 4503599627370496)
            left = left - gone[low]
        end
        if low == log.next then
            return
        end
        local number = floor(low / 64)
        local changed, dropped = {}, {}
        local parts = { low % 64 == 0 and '' or sub(log.field(number), 1, low % 64 * 14) }
        local before, total, next = log.total_before(low), log.total_before(low), low
        local seen = low > log.first and log.entry(low - 1) or now
        for entry = low, log.next - 1 do
            local at, up_to = log.entry(entry)
            local kept = (up_to - before) % 4503599627370496 - (gone[entry] or 0)
            before = up_to
            if kept > 0 then
                total, seen = (total + kept) % 4503599627370496, at
                parts[#parts + 1] = pack('>i7I7', at, total)
                next = next + 1
                if next % 64 == 0 then
                    changed[number], parts, number = table.concat(parts), {}, number + 1
                end
            end
        end
        local rest = table.concat(parts)
        if rest ~= '' then
            changed[number], number = rest, number + 1
        end
        while number <= floor((log.next - 1) / 64) do
            dropped[#dropped + 1], number = number, number + 1
        end
        if next == log.first then
            changed, dropped = {}, {}
            redis.call('UNLINK', key)
        end
        log.next, log.seen, log.total, log.records = next, seen, total, records
        write_log(key, log, changed, dropped)
        log = read_log(key, tag, window)
    end

    local function back(a, b, moment)
        if log then
            log_back(a, moment)
        elseif not words then
            return
        elseif kind == 'b' then
            local parts = third
            local at, owed, part = unpack('>i7I7I7', words)
            owed, part = owed - max(now - at, 0) - a, part - b
            if part < 0 then
                owed, part = owed - 1, part + parts
            end
            words = owed >= 0 and owed + part > 0 and pack('>i7I7I7', max(now, at), owed, part) or nil
        elseif kind == 'n' then
            local phase = third
            local last, current, previous = unpack('>i7I7I7', words)
            local at = max(now, last)
            local into = (last + phase) % window + at - last
            if into >= window then
                previous = into < 2 * window and current or 0
                current, into = 0, into % window
            end
            local from_current = moment >= at - into and min(a, current) or 0
            current = current - from_current
            -- What was taken two windows ago no longer counts.
            if moment >= at - into - window then
                previous = previous - min(a - from_current, previous)
            end
            words = current + previous > 0 and pack('>i7I7I7', at, current, previous) or nil
        else
            local ends, used = unpack('>i7I7', words)
            -- What was taken in an earlier window is gone with it.
            if moment >= ends then
                used = max(used - a, 0)
            end
            words = used > 0 and now < ends and pack('>i7I7', ends, used) or nil
        end
    end

    -- Ends the reservations for which `amount` has an answer, and gives that back: in full where it is
    -- still owed. What is left of the others: those taken later owed so much less all the time, had
    -- this never been taken; those taken before are owed at most what was owed beside it.
    local function end_some(amount)
        local held, order, any = {}, {}, false
        local owed, part, ends = 0, 0, nil
        if kind == 'b' and words then
            local at
            at, owed, part = unpack('>i7I7I7', words)
            ends, owed = at + owed, owed - max(now - at, 0)
            if owed < 0 then
                owed, part = 0, 0
            end
        end
        for from = 1, #records, RECORD do
            local one = { text = sub(records, from, from + LOW - 2) }
            one.lasts = unpack('>i7', records, from)
            one.a, one.b, one.turns, one.moment = unpack('>I7I7Bi7', records, from + 23)
            one.low, one.low_part = unpack('>I7I7', records, from + LOW - 1)
            if kind == 'b' and (one.low > owed or (one.low == owed and one.low_part > part)) then
                one.low, one.low_part = owed, part
            end
            held[#held + 1], order[#order + 1] = one, one
            any = any or amount(one) ~= nil
        end
        if not any then
            return
        end
        -- In the order in which they were taken: the least that was owed since rises with it.
        table.sort(order, function(one, other)
            if one.low ~= other.low then
                return one.low < other.low
            elseif one.low_part ~= other.low_part then
                return one.low_part < other.low_part
            end
            return one.moment < other.moment
        end)
        local function less(a, b, from_a, from_b)
            a, b = from_a - a, from_b - b
            if b < 0 then
                a, b = a - 1, b + third
            end
            if a < 0 then
                return 0, 0
            end
            return a, b
        end
        local beside, beside_part
        for i = #order, 1, -1 do
            local one = order[i]
            if beside and (one.low > beside or (one.low == beside and one.low_part > beside_part)) then
                one.low, one.low_part = beside, beside_part
            end
            local a, b = amount(one)
            if a then
                one.ended, one.paid, one.paid_part = true, 0, 0
                if kind ~= 'b' then
                    back(min(a, one.low), b, one.moment)
                else
                    if a > one.low or (a == one.low and b > one.low_part) then
                        a, b = one.low, one.low_part
                    end
                    -- Nothing comes back of a queue once somebody was told a later turn.
                    if a + b > 0 and (one.turns == 0 or one.moment == ends) then
                        back(a, b)
                        one.paid, one.paid_part, ends = a, b, nil
                        if words then
                            local at, left = unpack('>i7I7', words)
                            ends = at + left
                        end
                    end
                    beside, beside_part = less(one.paid, one.paid_part, one.low, one.low_part)
                end
            end
        end
        local paid, paid_part = 0, 0
        for _, one in ipairs(order) do
            if kind == 'b' then
                one.low, one.low_part = less(paid, paid_part, one.low, one.low_part)
            end
            if one.ended then
                paid, paid_part = paid + one.paid, paid_part + one.paid_part
                if kind == 'b' and paid_part >= third then
                    paid, paid_part = paid + 1, paid_part - third
                end
            end
        end
        local kept = {}
        for _, one in ipairs(held) do
            if not one.ended then
                kept[#kept + 1] = one.text .. pack('>I7I7', one.low, one.low_part)
            end
        end
        records = table.concat(kept)
    end

    forced_specs = ARGV[4]
    -- The records that have timed out without giving anything back. Turns of a queue come back only if no
    -- turn behind them was given away at that moment. Records that have timed out since the last call
    -- are therefore looked at in the order of their time-outs.
    local function lost_turns()
        local lost, due = {}, {}
        if kind ~= 'b' or not words then
            return lost
        end
        for from = 1, #records, RECORD do
            local one = { text = sub(records, from, from + LOW - 2), from = from }
            one.lasts = unpack('>i7', records, from)
            one.a, one.b, one.turns, one.moment = unpack('>I7I7Bi7', records, from + 23)
            if one.lasts <= now and one.turns ~= 0 then
                due[#due + 1] = one
            end
        end
        table.sort(due, function(one, other)
            if one.lasts ~= other.lasts then
                return one.lasts < other.lasts
            elseif one.moment ~= other.moment then
                return one.moment > other.moment
            end
            return one.from < other.from
        end)
        local at, owed, part = unpack('>i7I7I7', words)
        for _, one in ipairs(due) do
            if one.moment == at + owed then
                owed, part = owed - one.a, part - one.b
                if part < 0 then
                    owed, part = owed - 1, part + third
                end
            else
                lost[one.text] = true
            end
        end
        return lost
    end

    -- What has timed out has ended, whatever else is done.
    if records ~= '' and unpack('>i7', records) <= now then
        local lost = lost_turns()
        end_some(function(one)
            if one.lasts <= now then
                if lost[one.text] then
                    return 0, 0
                end
                return one.a, one.b
            end
        end)
    end
    if change == 'back' then
        back(unpack('>I7I7i7', ARGV[6]))
    elseif change == 'return' then
        local a, b, moment = unpack('>I7I7i7', ARGV[6])
        -- Had the units never been taken, the bucket might have been full for all the time since,
        -- and what came back in it lost. Given back in full, that would be minted.
        if kind == 'b' and words then
            a = a - max(max(now, (unpack('>i7', words))) - moment, 0)
        end
        if a >= 0 then
            back(a, b, moment)
        end
    elseif change == 'end' then
        local found = false
        for from = 1, #records, RECORD do
            found = found or sub(records, from + 7, from + 14) == ARGV[6]
        end
        if found then
            local a, b = 0, 0
            if ARGV[7] ~= '' then
                a, b = unpack('>I7I7', ARGV[7])
            elseif ARGV[8] ~= '' then
                forced_specs = ARGV[8]
            end
            end_some(function(one)
                if sub(one.text, 8, 15) == ARGV[6] then
                    return a, b
                end
            end)
        elseif ARGV[9] ~= '' then
            forced_specs = ARGV[9]
        end
    elseif change == 'reset' then
        words = nil
        local kept = {}
        for from = 1, #records, RECORD do
            kept[#kept + 1] = sub(records, from, from + LOW - 2) .. pack('>I7I7', 0, 0)
        end
        records = table.concat(kept)
        if log then
            redis.call('UNLINK', key)
            log = read_log(key, tag, window)
        end
    end

    if log then
        local _, _, _, _, _, cost = unpack('>Hc0c1i7i7i7i7', forced_specs)
        log.records, log.limit, log.cost = records, limit, cost
        if cost > 0 then
            take_log(key, log)
        elseif log.view == log.next and records == '' then
            redis.call('UNLINK', key)
        else
            write_log(key, log, {}, {})
        end
        return { now, known and 1 or 0 }
    elseif not words and records == '' and forced_specs == ARGV[4] then
        if known then
            redis.call('DEL', key)
        end
        return { now, known and 1 or 0 }
    end
    forced, forced_tail = words and tag .. words or false, records
end
