-- Read under a token, and raise the mark.
-- KEYS: value, store. ARGV: token (20 digits), back end.
-- Answers {'other', back end}, {'fenced', token} or {'at', version, value}.
local stored = redis.call('HGET', KEYS[2], 'backend')
if stored and stored ~= ARGV[2] then return {'other', stored} end
local generation = redis.call('HGET', KEYS[2], 'generation') or '0'
local at = redis.call('HMGET', KEYS[1], 'version', 'value', 'seen', 'generation')
if not stored then redis.call('HSET', KEYS[2], 'backend', ARGV[2]) end
local seen = at[4] == generation and at[3] or ''               -- a mark of another generation is that of another back end
if ARGV[1] < seen then return {'fenced', seen} end
if ARGV[1] ~= seen then redis.call('HSET', KEYS[1], 'seen', ARGV[1], 'generation', generation) end
return {'at', at[1] or '0', at[2]}
