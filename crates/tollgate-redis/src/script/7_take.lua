-- Takes what was found to fit; of rules, what they let pass.
if not rules and (look or reply[2] ~= 1) then
    for i, conversion in pairs(converted or {}) do
        if conversion.log and conversion.stays then
            store_log(KEYS[i], conversion.log)
        elseif conversion.stays then
            call('SET', KEYS[i], conversion.state,
                'PXAT', format('%d', (conversion.ends + late) / 1000 + 4000000000001))
        end
    end
    return reply
end

if plain and count > 1 then
    -- One command and a short one for each cost less than a long one for each.
    call('MSET', spread(left, 1, 2 * count))
    for i = 1, count do
        call('PEXPIREAT', KEYS[i], format('%d', (fresh[i] + late) / 1000 + 4000000000001))
    end
else
    for i = 1, count do
        local after = left[2 * i]
        if type(after) == 'table' and after.is_denied then
            store_log(KEYS[i], after)
        elseif type(after) == 'table' then
            take_log(KEYS[i], after)
        elseif after and after ~= true then
            call('SET', KEYS[i], after, 'PXAT', format('%d', (fresh[i] + late) / 1000 + 4000000000001))
        end
    end
end
if forced ~= nil then
    reply[2] = known and 1 or 0
end
return reply
