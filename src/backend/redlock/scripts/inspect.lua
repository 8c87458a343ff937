-- Tell what this node knows of a lock and of itself. Changes nothing.
-- KEYS: lock, counter, node record.
-- Answers {holder or false, ms left, counter or -1, epoch or -1, floor, high, claim or -1}; ms left as PTTL tells it.
local function natural(text)
  if text and #text <= 16 and string.find(text, '^%d+$') then return tonumber(text) end
end
local record = redis.call('HMGET', KEYS[3], 'epoch', 'floor', 'high', 'joining')
local epoch, floor, high = natural(record[1] or '0'), natural(record[2] or '0'), natural(record[3] or '0')
local claim = natural(record[4] or '0')
if not (epoch and floor and high and claim) then return redis.error_reply('NOTANUMBER in the node record') end
if not record[1] then epoch = -1 end
if not record[4] then claim = -1 end
local count = redis.call('GET', KEYS[2])
local number = -1
if count then number = natural(count) end
if not number then return redis.error_reply('NOTANUMBER in the counter') end
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), number, epoch, floor, high, claim}
