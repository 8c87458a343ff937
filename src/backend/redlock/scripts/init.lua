-- If the node is empty, give it an epoch and a number to start from; a number that leaves no tokens is refused.
-- KEYS: node record. ARGV: epoch, floor. Answers {epoch, floor, high} as they now are.
local LARGEST = 9007199254740991
local function natural(text)
  if text and #text <= 16 and string.find(text, '^%d+$') then return tonumber(text) end
end
if redis.call('HEXISTS', KEYS[1], 'epoch') == 0 then
  if (tonumber(ARGV[2]) or 0) >= LARGEST then return redis.error_reply('EXHAUSTED the numbers end at 2^53 - 1') end
  if not (natural(ARGV[1]) and natural(ARGV[2])) then return redis.error_reply('NOTANUMBER in the arguments') end
  redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'floor', ARGV[2], 'high', ARGV[2])
end
local record = redis.call('HMGET', KEYS[1], 'epoch', 'floor', 'high')
local epoch, floor, high = natural(record[1]), natural(record[2] or '0'), natural(record[3] or '0')
if not (epoch and floor and high) then return redis.error_reply('NOTANUMBER in the node record') end
return {epoch, floor, high}
