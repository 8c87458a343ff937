-- Change a value, if nothing speaks against it.
-- KEYS: value, store, index. ARGV: key, operation, expected version or '', token (20 digits) or '', back end, 'set' or 'remove', value.
-- Answers {'other', back end}, {'applied', version}, {'fenced', token} or {'at', version, value}.
local key, operation, expected, token, backend = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
-- All reads come first: what is of another type than it should be is found before anything is written.
local stored = redis.call('HGET', KEYS[2], 'backend')
if token ~= '' and stored and stored ~= backend then return {'other', stored} end
local generation = redis.call('HGET', KEYS[2], 'generation') or '0'
local at = redis.call('HMGET', KEYS[1], 'version', 'o:' .. operation, 'seen', 'generation')
redis.call('HEXISTS', KEYS[3], key)
if token ~= '' and not stored then redis.call('HSET', KEYS[2], 'backend', backend) end
if at[2] then return {'applied', at[2]} end
if token ~= '' then
  local seen = at[4] == generation and at[3] or ''             -- a mark of another generation is that of another back end
  if token < seen then return {'fenced', seen} end
  if token ~= seen then redis.call('HSET', KEYS[1], 'seen', token, 'generation', generation) end
end
if expected ~= '' and expected ~= (at[1] or '0') then
  return {'at', at[1] or '0', redis.call('HGET', KEYS[1], 'value')}
end
local number = redis.call('HINCRBY', KEYS[1], 'version', 1)
local version = string.format('%.0f', number)
local place = 's:' .. string.format('%.0f', number % 1024)     -- the operation of 1024 versions ago is there, and is forgotten
local forgotten = redis.call('HGET', KEYS[1], place)
if forgotten then redis.call('HDEL', KEYS[1], 'o:' .. forgotten) end
redis.call('HSET', KEYS[1], place, operation, 'o:' .. operation, version)
if ARGV[6] == 'set' then
  redis.call('HSET', KEYS[1], 'value', ARGV[7])
  redis.call('HSET', KEYS[3], key, '')
else
  redis.call('HDEL', KEYS[1], 'value')
  redis.call('HDEL', KEYS[3], key)
end
return {'applied', version}
