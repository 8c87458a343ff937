-- One step of bringing back a node that lost its data; `proto/readmit.rs` has the run that it is part of.
-- KEYS: node record. ARGV: claim, raise or admit; epoch of the run; floor (0 but for admit).
-- Answers {epoch or -1, floor, high, claim or -1} as they now are.
local LARGEST = 9007199254740991
local function natural(text)
  if text and #text <= 16 and string.find(text, '^%d+$') then return tonumber(text) end
end
local record = redis.call('HMGET', KEYS[1], 'epoch', 'floor', 'high', 'joining')
local empty, claimed = not record[1], record[4]
if empty then record = {false, false, false, record[4]} end
local epoch, floor, high = natural(record[1] or '0'), natural(record[2] or '0'), natural(record[3] or '0')
local claim = natural(record[4] or '0')
if not (epoch and floor and high and claim) then return redis.error_reply('NOTANUMBER in the node record') end
if (tonumber(ARGV[2]) or 0) > LARGEST or (tonumber(ARGV[3]) or 0) >= LARGEST then
  return redis.error_reply('EXHAUSTED the numbers end at 2^53 - 1')
end
local run, from = natural(ARGV[2]), natural(ARGV[3])
if not (run and from) then return redis.error_reply('NOTANUMBER in the arguments') end
if ARGV[1] == 'claim' then
  if empty and (not claimed or claim < run) then
    redis.call('HSET', KEYS[1], 'joining', ARGV[2])
    claimed, claim = true, run
  end
elseif ARGV[1] == 'raise' then                              -- once: a second raise with one epoch is refused
  if empty or epoch >= run then return redis.error_reply('NOTRAISED empty, or the epoch is not smaller') end
  redis.call('HSET', KEYS[1], 'epoch', ARGV[2])
  epoch = run
elseif ARGV[1] == 'admit' then
  if empty and claimed and claim == run then
    redis.call('HSET', KEYS[1], 'epoch', ARGV[2], 'floor', ARGV[3], 'high', ARGV[3])
    redis.call('HDEL', KEYS[1], 'joining')
    empty, claimed, epoch, floor, high = false, false, run, from, from
  end
else
  return redis.error_reply('NOSTEP claim, raise or admit')
end
if empty then epoch = -1 end
if not claimed then claim = -1 end
return {epoch, floor, high, claim}
