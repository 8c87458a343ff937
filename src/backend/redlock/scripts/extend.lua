-- If the key is mine, let it live at least this long from now. Never creates a key, and never shortens its life:
-- an extension that arrives late must not cut short what a later one has promised.
-- KEYS: lock. ARGV: owner, TTL in ms. Answers 1 extended, 0 not mine.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
