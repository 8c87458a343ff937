-- If the key is mine, delete it, and wake whoever waits for it.
-- KEYS: lock. ARGV: owner, channel. Answers 1 released, 0 not mine.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.pcall('PUBLISH', ARGV[2], KEYS[1])                    -- a node that forbids it only makes waiters poll
return 1
