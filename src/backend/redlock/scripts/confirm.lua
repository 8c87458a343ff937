-- If the key is mine, raise the number to at least the one asked for, and tell it.
-- KEYS: lock, counter, node record. ARGV: owner, number.
-- Answers {1, number, epoch} mine; {0} not mine, absent included; {-1} the node is empty and does not vote.
local LARGEST = 9007199254740991
local function natural(text)
  if text and #text <= 16 and string.find(text, '^%d+$') then return tonumber(text) end
end
local record = redis.call('HMGET', KEYS[3], 'epoch', 'floor', 'high')
if not record[1] then return {-1} end
local epoch, floor, high = natural(record[1]), natural(record[2] or '0'), natural(record[3] or '0')
if not (epoch and floor and high) then return redis.error_reply('NOTANUMBER in the node record') end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0} end
local count = redis.call('GET', KEYS[2])
local number = floor
if count then number = natural(count) end
if not number then return redis.error_reply('NOTANUMBER in the counter') end
local asked = tonumber(ARGV[2])
if asked > LARGEST then return redis.error_reply('EXHAUSTED the numbers end at 2^53 - 1') end
if asked > number then number = asked end                   -- never lowers; the client compares
redis.call('SET', KEYS[2], string.format('%.0f', number))
if number > high then redis.call('HSET', KEYS[3], 'high', string.format('%.0f', number)) end
return {1, number, epoch}
