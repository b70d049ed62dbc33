
-- Several ends of reservations in one call, each as 'change' ends one. KEYS are their keys; ARGV has five
-- values for each behind the first three: the charge with no cost, the ticket, and what 'end' has in
-- ARGV[7] to ARGV[9].
local function change(KEYS, ARGV, what)
