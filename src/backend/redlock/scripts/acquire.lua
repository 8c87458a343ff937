-- Set the lock key if it is absent and raise the number.
-- KEYS: lock, counter, node record. ARGV: owner, TTL in ms, hint.
-- Answers {1, number, epoch} mine; {0, number, ms left} taken; {-1} the node is empty and does not vote.
local LARGEST, LEAD = 9007199254740991, 4294967296          -- 2^53 - 1: doubles are exact up to here
local function natural(text)
  if text and #text <= 16 and string.find(text, '^%d+$') then return tonumber(text) end
end
local record = redis.call('HMGET', KEYS[3], 'epoch', 'floor', 'high')
if not record[1] then return {-1} end
local epoch, floor, high = natural(record[1]), natural(record[2] or '0'), natural(record[3] or '0')
if not (epoch and floor and high) then return redis.error_reply('NOTANUMBER in the node record') end
local count = redis.call('GET', KEYS[2])
local number = floor
if count then number = natural(count) end
if not number then return redis.error_reply('NOTANUMBER in the counter') end
local raised, hint = number + 1, tonumber(ARGV[3])
if hint > raised and hint - raised <= LEAD then raised = hint end
local exhausted = raised > LARGEST and redis.call('EXISTS', KEYS[1]) == 0
if exhausted then return redis.error_reply('EXHAUSTED the numbers end at 2^53 - 1') end
if raised > LARGEST or not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  redis.call('GET', KEYS[1])                                -- another type is an error, not a holder
  local left = redis.call('PTTL', KEYS[1])
  if left == -1 then return redis.error_reply('NOTTL the key has no TTL: it is not a lock') end
  return {0, number, left}
end
redis.call('SET', KEYS[2], string.format('%.0f', raised))   -- an integer, never in exponent form
if raised > high then redis.call('HSET', KEYS[3], 'high', string.format('%.0f', raised)) end
return {1, raised, epoch}
