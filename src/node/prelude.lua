-- The world a script sees, made afresh for each run so that nothing of one script is left for the next.
-- Called once per interpreter with what is written in Rust; answers the function that runs a script.
local native = ...

-- Pure functions of the base library. Left out, beside what reaches the outside: loadstring, load, getfenv, setfenv
-- (they lead to the real globals), collectgarbage, coroutine, newproxy.
local base = {
  assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next, pairs = pairs,
  rawequal = rawequal, rawget = rawget, rawset = rawset, select = select, setmetatable = setmetatable,
  tonumber = tonumber, tostring = tostring, type = type, unpack = unpack, _VERSION = _VERSION,
}
local pcall, xpcall, setfenv, setmetatable, error, type = pcall, xpcall, setfenv, setmetatable, error, type
local tostring, select, find, sub = tostring, select, string.find, string.sub
local libraries = {string = string, table = table, math = math}

string.dump = nil
math.random, math.randomseed = native.random, native.randomseed
getmetatable('').__metatable = false                        -- else it leads to the string library itself

local function readonly()
  error('Attempt to modify a readonly table', 2)
end

local function absent(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 3)
end

local function shield(fields, missing)
  local index = fields
  if missing then
    index = function(self, name)
      local value = fields[name]
      if value == nil then missing(self, name) end
      return value
    end
  end
  return setmetatable({}, {__index = index, __newindex = readonly, __metatable = false})
end

-- Errors of commands are values made in Rust. As in Redis, `pcall` gives their text, and that of a table with `err`;
-- a handler of `xpcall` gets such a table.
local function told(ok, problem, ...)
  if ok then return ok, problem, ... end
  if type(problem) == 'userdata' then problem = native.told(problem) end
  if type(problem) == 'table' and type(problem.err) == 'string' then problem = problem.err end
  return false, problem
end

function base.pcall(f, ...)
  return told(pcall(f, ...))
end

function base.xpcall(f, handler)
  return xpcall(f, function(problem)
    if type(problem) == 'userdata' then problem = native.told(problem) end
    return handler(problem)
  end)
end

local function error_reply(...)
  local text = ...
  if select('#', ...) ~= 1 or type(text) ~= 'string' then return {err = 'ERR wrong number or type of arguments'} end
  if sub(text, 1, 1) == '-' then text = sub(text, 2) end
  if not find(text, ' ', 1, true) then text = 'ERR ' .. text end
  return {err = text}
end

local function status_reply(...)
  local text = ...
  if select('#', ...) ~= 1 or type(text) ~= 'string' then return {err = 'ERR wrong number or type of arguments'} end
  return {ok = text}
end

local function setresp(version)
  if version ~= 2 then error('this node answers scripts in version 2 of the protocol only', 2) end
end

local function nothing() end
local function yes() return true end

return function(script, call, protected_call, keys, argv)
  local redis = {
    call = call, pcall = protected_call, error_reply = error_reply, status_reply = status_reply,
    sha1hex = native.sha1hex, log = nothing, set_repl = nothing, replicate_commands = yes, setresp = setresp,
    LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
    REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
    REDIS_VERSION = native.version,
  }
  local world = setmetatable({KEYS = keys, ARGV = argv, redis = shield(redis)}, {__index = base})
  for name, library in pairs(libraries) do world[name] = shield(library) end
  local globals = shield(world, absent)
  world._G = globals
  setfenv(script, globals)
  return xpcall(script, native.blame)
end
