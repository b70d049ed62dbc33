
-- Takes what was found to fit; of rules, what they let pass.
if not rules and (look or reply[2] ~= 1) then
    return reply
end

for i = 1, count do
    local tail, after = tails[i], taken[i]
    local key, tag = KEYS[i], ARGV[2 * i + 2]
    if not after then
        -- A rule that only reports has no room for it.
    elseif type(after) == 'table' then
        local limit, window, cost = unpack('>I7I7I7', ARGV[2 * i + 3], 2)
        after.records = tail
        take_log(key, tag, after, limit, window, cost)
    else
        local lasts = fresh[i]
        if tail ~= '' then
            lasts = max(lasts, (unpack('>i7', tail, #tail - RECORD + 1)))
            after = after .. tail
        end
        -- Redis writes a number of Lua's with 17 digits, which takes longer than %d.
        call('SET', key, tag .. after, 'PXAT', format('%d', ceil((lasts + late) / 1000) + 4000000000000))
    end
end
if forced ~= nil then
    reply[2] = known and 1 or 0
end
return reply
