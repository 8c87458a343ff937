-- From now on compare the tokens of another back end. Every mark belongs to a generation, so a new one ends them all.
-- KEYS: store. ARGV: from, to. Answers {'done'} or {'other', back end}.
local stored = redis.call('HGET', KEYS[1], 'backend')
if stored == ARGV[2] then return {'done'} end
if stored and stored ~= ARGV[1] then return {'other', stored} end
redis.call('HSET', KEYS[1], 'backend', ARGV[2])
redis.call('HINCRBY', KEYS[1], 'generation', 1)
return {'done'}
