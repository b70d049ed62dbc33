
-- 'rules': ARGV[5] is the way (t takes, r takes and blocks nobody, p takes nothing and blocks
-- whoever is denied, l looks), how many charges there are, whether they are reservations, how many
-- rules there are, and then for each rule:
--   how many charges it has, whether it only reports, the number of its block's key or 0, whether it
--   blocks whoever it denies, and if so for how long first, how many times longer each time, and how
--   long at most; then a byte for each charge, 1 where its cost can never be.
-- The rules that do not only report take all or none of their charges. Each of the others takes
-- its own by itself, once those have let the request pass.
--
-- A block is a key of its own: 'B', version 1, until when, how often before, when that is forgotten,
-- and whether it was set by hand. It expires when it is forgotten.
--
-- For each rule the answer has whether its charges were taken, whether it was blocked before, and for
-- how long it is blocked now.
if rules then
    local way, groups = sub(rules, 1, 1), {}
    local from, charge, barred, fits, wrong = 5, 0, false, true, false
    for number = 1, unpack('>B', rules, 4) do
        local charges, shadow, key, punishes, first, factor, most = unpack('>BBBBI7I4I7', rules, from)
        from = from + 22
        local group = {
            from = charge + 1, to = charge + charges, shadow = shadow == 1, punishes = punishes == 1,
            first = first, factor = factor, most = most,
            fits = true, denied = false, wrong = false, blocked = 0, times = 0, key = key > 0 and KEYS[count + key],
        }
        for i = group.from, group.to do
            local never = unpack('>B', rules, from) == 1
            from = from + 1
            if never then
                left[2 * i], group.fits, group.wrong = false, false, true
            elseif not left[2 * i] then
                group.fits, group.denied = false, true
            end
        end
        charge = charge + charges
        local raw = group.key and redis.pcall('GET', group.key)
        if raw then
            if type(raw) == 'table' or #raw ~= 24 or sub(raw, 1, 2) ~= 'B\1' then
                return { now, FOREIGN, count + key }
            end
            local ends, times, forgotten, by_hand = unpack('>i7I7i7B', raw, 3)
            if group.punishes or by_hand == 1 then
                group.blocked = max(ends - now, 0)
            end
            if now < forgotten then
                group.times = min(times + 1, 4294967295)
            end
        end
        group.was_blocked = group.blocked > 0
        if not group.shadow then
            barred, fits = barred or group.was_blocked, fits and group.fits
            wrong = wrong or group.wrong
        end
        groups[number] = group
    end

    local take = way ~= 'l' and not barred
    local allowed, told = take and fits and way ~= 'p', {}
    reply[2] = allowed and 1 or held and HELD or 0
    for number, group in ipairs(groups) do
        local takes = allowed and (not group.shadow or (group.fits and not group.was_blocked))
        local denies = take and not allowed and not wrong
        if group.shadow then
            denies = allowed and not takes and not group.was_blocked and not group.wrong
        end
        for i = group.from, group.to do
            left[2 * i] = takes and left[2 * i]
            plain = plain and left[2 * i]
            local conversion = denies and converted and converted[i]
            if conversion and conversion.stays then
                left[2 * i], fresh[i] = conversion.log or conversion.state, conversion.ends
                if conversion.log then
                    conversion.log.is_denied = true
                end
            end
        end
        -- A request with an invalid cost blocks no key.
        if way ~= 'r' and take and not wrong and group.punishes and group.denied and not group.was_blocked then
            -- Longer than the longest it does not get, which bounds the loop as well. A product
            -- beyond 2^53 is not exact and far beyond the longest.
            local length, most = group.first, group.most
            for _ = 1, group.times do
                local longer = length * group.factor
                if longer < most and longer > length then
                    length = longer
                else
                    length = group.factor > 1 and most or length
                    break
                end
            end
            length = min(length, most)
            local ends = now + length
            -- Without growth there is nothing to remember.
            local forgotten = group.factor > 1 and ends + most or ends
            redis.call('SET', group.key, 'B\1' .. pack('>i7I7i7B', ends, group.times, forgotten, 0),
                'PXAT', ceil((forgotten + late) / 1000) + 4000000000000)
            group.blocked = length
        end
        told[number] = pack('>BBI7', takes and 1 or 0, group.was_blocked and 1 or 0, group.blocked)
    end
    reply[count + 3] = table.concat(told)
end
