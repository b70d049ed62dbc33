-- Tollgate's script: decides charges, and takes all of them or none. A second one is made of the same
-- parts for batches: it decides many requests, one after the other.
--
-- Numbers are doubles, exact for integers up to 2^53. What keeps them there:
--   * Moments are microseconds since 2096-10-02T07:06:40Z (4e9 s after 1970), negative until then,
--     so that every moment up to the year 2262, and a hundred years more, stays below 2^53.
--   * There is no product of a caller's numbers but in the sliding counter, which says why it is exact.
--   * a % b is a - floor(a / b) * b. It is exact for |a| < 2^53: a quotient that is no integer is
--     at least 1 / b away from one, which is more than half the distance of doubles there.
--
-- ARGV[1] is '', or the time in a test; ARGV[2] is what to do; ARGV[3] is 'log' where a sliding log
-- is concerned. The rest is said where it is used. Functions are made only where they are called:
-- making all of them would take longer than a decision.
--
-- A state begins with a tag that names the limit it was made under; its words follow, and then the
-- records of open reservations, the one that times out first in front.
local spread = unpack
local pack, unpack, sub = struct.pack, struct.unpack, string.sub
-- Looked up once, and so are KEYS and ARGV: every charge asks for all of them.
local call, pcall, find, format = redis.call, redis.pcall, string.find, string.format
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local KEYS, ARGV = KEYS, ARGV

local what = ARGV[2]
local clock = call('TIME')
local now = (clock[1] - 4000000000) * 1000000 + clock[2]
-- A key expires when its state is worthless, in milliseconds: (at + late) / 1000 + 4e12. What decides
-- writes that with %d, since Redis would write 17 digits, which takes longer; %d cuts, so it adds one.
-- Keys expire by the server's clock: a test's keys must outlive what the test does on its own.
local late = 0
if ARGV[1] ~= '' then
    late = now - ARGV[1] + 3600000000
    now = tonumber(ARGV[1])
end

-- Answers other than allowed (1) and denied (0); with each goes the number of the charge.
local OTHER, CALENDAR, DUE, MANY, FOREIGN, HELD = 2, 3, 4, 5, 6, 7
-- Bytes of a reservation's record: until, ticket, units, amount (two numbers), whether it is turns of a
-- queue, moment, and the least that was owed in all since it was taken (two numbers): time pays for
-- held units last, so no more than that is still owed for them. Of what is no bucket that is ANY,
-- since it knows what was taken when, and nothing once the key was made new.
local RECORD, LOW = 59, 46
local ANY = 9007199254740992
local MOST_RECORDS = 512
