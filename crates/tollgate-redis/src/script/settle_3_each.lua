end

-- Answers with each end's own answer. One that fails does not keep the others from their end.
local FAILED, replies = 8, {}
for number, key in ipairs(KEYS) do
    local from = 5 * number - 2
    local args = { '', 'change', '', ARGV[from + 1], 'end', spread(ARGV, from + 2, from + 5) }
    local is_whole, reply = guarded(change, { key }, args, 'change')
    replies[number] = is_whole and reply or { now, FAILED, 0 }
end
return replies
