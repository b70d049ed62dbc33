
-- A batch: ARGV[2] has a byte for each request, the number of its charges, with 128 more for a look.
-- KEYS are all requests' keys, one request after the other, and ARGV[3 + i] has the charges of request
-- i. What follows is the decision on one request, which finds here what it finds there, and
-- nothing that changes a state whatever it holds.
local forced, forced_tail, forced_specs, known
local function decide(KEYS, ARGV, what)
