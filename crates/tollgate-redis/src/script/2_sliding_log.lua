
-- A sliding log is a hash: 'h' is the tag and the header, 'r' the records of reservations, and
-- field k the entries 64k to 64k + 63 of 14 bytes each, a moment and the running total up to it.
-- Entries are numbered for good; those from `first` to `next` - 1 are there. So a search is a
-- bisection, a take rewrites one field, and spent fields are dropped a few at a time: no call
-- costs more than the logarithm of the limit. Totals wrap at 2^52; only differences count.
local read_log, write_log, take_log, store_log, tell_log
if ARGV[3] == 'log' then
    -- `converted` is the log of another limit as it is under this one: the tag and the header, the
    -- records behind their length, and all entries, numbered from 0.
    function read_log(key, tag, window, converted)
        local found, entries
        if converted then
            local records, from = unpack('>I4c0', converted, #tag + 36)
            found, entries = { sub(converted, 1, #tag + 35), records }, sub(converted, from)
        else
            found = pcall('HMGET', key, 'h', 'r')
        end
        if found.err then
            return nil, OTHER
        end
        local head = found[1]
        -- With room for all it will have.
        local log = {
            tag = tag, window = window, limit = 0, cost = 0, records = found[2] or '',
            had_records = false, due = false, first = 0, next = 0, before = 0, seen = now, total = 0,
            at = now, view = 0, gone = 0, used = 0, field = 0, entry = 0, total_before = 0, find = 0,
            entries = entries,
        }
        if head then
            if #head ~= #tag + 35 or sub(head, 1, #tag) ~= tag then
                return nil, OTHER
            end
            log.first, log.next, log.before, log.seen, log.total = unpack('>I7I7I7i7I7', head, #tag + 1)
            if log.next > 9007199254740992 or log.first > log.next then
                return nil, OTHER
            end
            -- The clock moved back by more than the window: the client re-dates the log.
            if not entries and log.next > log.first and log.seen - window > now then
                return nil, OTHER
            end
        elseif call('EXISTS', key) == 1 then
            return nil, OTHER
        end
        log.had_records = #log.records > 0
        if log.had_records and unpack('>i7', log.records) <= now then
            log.due = true
        end

        local fields = {}
        function log.field(number)
            if not fields[number] then
                fields[number] = entries and sub(entries, number * 896 + 1, number * 896 + 896)
                    or call('HGET', key, number) or ''
            end
            return fields[number]
        end
        -- The moment of an entry and the running total up to it.
        function log.entry(index)
            return unpack('>i7I7', log.field(floor(index / 64)), index % 64 * 14 + 1)
        end
        function log.total_before(index)
            if index == log.first then
                return log.before
            end
            local _, total = log.entry(index - 1)
            return total
        end
        -- The first entry from `low` on of which `holds` is true, which it is for good once it is.
        function log.find(low, holds)
            local high = log.next
            while low < high do
                local middle = floor((low + high) / 2)
                if holds(log.entry(middle)) then
                    high = middle
                else
                    low = middle + 1
                end
            end
            return low
        end

        log.at = max(now, log.seen)
        log.view = log.next
        if log.next > log.first and log.seen + window > log.at then
            -- Mostly the first entry counts, or one near it.
            local near = min(log.first + 16, log.next - 1)
            local low = log.entry(near) + window <= log.at and near + 1 or log.first
            log.view = log.find(low, function(at) return at + window > log.at end)
        end
        log.gone = log.view == log.next and log.total or log.total_before(log.view)
        log.used = (log.total - log.gone) % 4503599627370496
        return log
    end

    -- Writes the log's header, its changed fields and its records; drops other fields.
    function write_log(key, log, changed, dropped)
        local head = pack('>I7I7I7i7I7', log.first, log.next, log.before, log.seen, log.total)
        local write = { 'HSET', key, 'h', log.tag .. head }
        local fresh = log.seen + log.window
        if #log.records > 0 then
            write[5], write[6] = 'r', log.records
            fresh = max(fresh, (unpack('>i7', log.records, #log.records - RECORD + 1)))
        elseif log.had_records then
            dropped[#dropped + 1] = 'r'
        end
        for number, field in pairs(changed) do
            -- A long list of arguments does not fit Lua's stack.
            if #write > 200 then
                call(spread(write))
                write = { 'HSET', key }
            end
            write[#write + 1] = number
            write[#write + 1] = field
        end
        call(spread(write))
        for _, name in ipairs(dropped) do
            call('HDEL', key, name)
        end
        call('PEXPIREAT', key, format('%d', (fresh + late) / 1000 + 4000000000001))
    end

    -- Writes the entries of a converted log in place of what the key has.
    local function write_entries(key, log)
        call('UNLINK', key)
        local write = { 'HSET', key }
        for number = 0, floor((log.next - 1) / 64) do
            write[#write + 1] = number
            write[#write + 1] = log.field(number)
            if #write > 200 then
                call(spread(write))
                write = { 'HSET', key }
            end
        end
        if #write > 2 then
            call(spread(write))
        end
    end

    -- Writes a converted log, to which nothing is added.
    function store_log(key, log)
        write_entries(key, log)
        if log.next > log.first or #log.records > 0 then
            write_log(key, log, {}, {})
        end
    end

    -- Adds the cost at the log's moment, whether it fits or not.
    function take_log(key, log)
        local dropped = {}
        if log.entries then
            write_entries(key, log)
        end
        if log.view == log.next and log.next > 0 then
            call('UNLINK', key)
            log.first, log.next, log.before, log.total = 0, 0, 0, 0
        elseif log.view > log.first then
            local field = floor(log.first / 64)
            local first = min(log.view, (field + 8) * 64)
            log.before = log.total_before(first)
            while field < floor(first / 64) do
                dropped[#dropped + 1] = field
                field = field + 1
            end
            log.first = first
        end
        local index = log.next
        -- Equal moments share an entry. Only a debt can make more entries than units are allowed: it
        -- shares the last one too.
        if index > log.first and (log.seen == log.at or index - log.first > log.limit) then
            index = index - 1
        end
        log.total = (log.total + min(log.cost, 2251799813685248 - log.used)) % 4503599627370496
        log.next, log.seen = index + 1, log.at
        local number = floor(index / 64)
        local field = index % 64 == 0 and '' or sub(log.field(number), 1, index % 64 * 14)
        write_log(key, log, { [number] = field .. pack('>i7I7', log.at, log.total) }, dropped)
    end

    -- What the client needs to tell the figures: what is used, the last moment, and for a cost that
    -- does not fit the entry to wait for, with all that will have left by then.
    function tell_log(log)
        local wait, left = 0, 0
        local too_many = log.used - (log.limit - log.cost)
        if too_many > 0 and log.used > 0 then
            local index = log.find(log.view, function(_, total)
                return (total - log.gone) % 4503599627370496 >= too_many
            end)
            wait, left = log.entry(min(index, log.next - 1))
            left = (left - log.gone) % 4503599627370496
        end
        return pack('>I7i7i7I7', log.used, log.seen, wait, left)
    end
end
