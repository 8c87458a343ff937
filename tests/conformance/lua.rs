//! Other clients' scripts, and the corners of the dialect.

use crate::pair::Pair;
use crate::support::{Live, live_tests};
use crate::wire::{Answer, Resp};

pub(crate) fn tests() -> Vec<Live> {
    live_tests![sync:
        scripts_of_other_redlock_clients_agree,
        conversions_and_errors_agree_in_resp2,
        conversions_and_errors_agree_in_resp3,
        digests_agree,
        scripts_that_do_not_end_are_ended,
    ]
}

/// Asks both and compares, the place of an error included.
#[track_caller]
fn same(pair: &mut Pair, words: &[&str]) -> Answer {
    let (embedded, real) = pair.ask(words);
    assert_eq!(embedded, real, "{words:?}: embedded node, Redis");
    embedded
}

/// redlock-py, and the pages of Redis.
const UNLOCK: &str = r#"if redis.call("get",KEYS[1]) == ARGV[1] then
        return redis.call("del",KEYS[1])
    else
        return 0
    end"#;

/// node-redlock 4 and 5: any number of resources at once.
const NODE_ACQUIRE: &str = r#"
  -- Return 0 if an entry already exists.
  for i, key in ipairs(KEYS) do
    if redis.call("exists", key) == 1 then
      return 0
    end
  end
  for i, key in ipairs(KEYS) do
    redis.call("set", key, ARGV[1], "PX", ARGV[2])
  end
  return #KEYS
"#;

const NODE_EXTEND: &str = r#"
  for i, key in ipairs(KEYS) do
    if redis.call("get", key) ~= ARGV[1] then
      return 0
    end
  end
  for i, key in ipairs(KEYS) do
    redis.call("set", key, ARGV[1], "PX", ARGV[2])
  end
  return #KEYS
"#;

const NODE_RELEASE: &str = r#"
  local count = 0
  for i, key in ipairs(KEYS) do
    if redis.call("get", key) == ARGV[1] then
      redis.pcall("del", key)
      count = count + 1
    end
  end
  return count
"#;

/// A reentrant lock in a hash, as Redisson keeps it.
const REENTRANT_LOCK: &str = "if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then \
    redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; \
    return redis.call('pttl', KEYS[1]) > 0;";
const REENTRANT_UNLOCK: &str = "if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end; \
    local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); \
    if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0; \
    else redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); return 1; end; return nil;";

fn scripts_of_other_redlock_clients_agree() {
    let mut pair = Pair::start(Resp::V2);
    let pair = &mut pair;
    for (script, keys, argv) in [
        (NODE_ACQUIRE, &["a", "b"][..], &["me", "600000"][..]),
        (NODE_ACQUIRE, &["b", "c"], &["you", "600000"]),
        (UNLOCK, &["a"], &["you"]),
        (UNLOCK, &["a"], &["me"]),
        (NODE_EXTEND, &["b"], &["me", "900000"]),
        (NODE_EXTEND, &["a", "b"], &["me", "900000"]),
        (NODE_RELEASE, &["a", "b", "c"], &["me"]),
        (REENTRANT_LOCK, &["h"], &["600000", "one"]),
        (REENTRANT_LOCK, &["h"], &["600000", "one"]),
        (REENTRANT_LOCK, &["h"], &["600000", "two"]),
        (REENTRANT_UNLOCK, &["h", "chan"], &["0", "600000", "two"]),
        (REENTRANT_UNLOCK, &["h", "chan"], &["0", "600000", "one"]),
        (REENTRANT_UNLOCK, &["h", "chan"], &["0", "600000", "one"]),
        (REENTRANT_UNLOCK, &["h", "chan"], &["0", "600000", "one"]),
        // The same scripts on keys that hold something else.
        (NODE_ACQUIRE, &["l"], &["me", "0"]),
    ] {
        let count = keys.len().to_string();
        let words: Vec<&str> =
            ["EVAL", script, &count].into_iter().chain(keys.iter().chain(argv).copied()).collect();
        same(pair, &words);
    }
    same(pair, &["RPUSH", "l", "x"]);
    same(pair, &["EVAL", UNLOCK, "1", "l", "me"]);
    same(pair, &["EVAL", NODE_RELEASE, "1", "l", "me"]);
    same(pair, &["DBSIZE"]);
}

const SCRIPTS: &[&str] = &[
    "return 1",
    "return 3.99",
    "return -3.99",
    "return 'text'",
    "return nil",
    "return",
    "return true",
    "return false",
    "return {1, 2, nil, 4}",
    "return {1.5, 'a', true, false, {ok='fine'}, {err='bad thing'}, {{}}}",
    "return {ok='fine'}",
    "return {err='MY error'}",
    "return {err='bare'}",
    "return redis.error_reply('My Error')",
    "return redis.error_reply('MyError')",
    "return redis.error_reply('-MY x')",
    "return redis.error_reply()",
    "return redis.status_reply('x')",
    "return redis.status_reply()",
    "return redis.sha1hex('')",
    "return redis.sha1hex(12)",
    "return redis.sha1hex()",
    "return {redis.LOG_WARNING, redis.REDIS_VERSION, redis.REPL_ALL}",
    "redis.log(redis.LOG_NOTICE, 'x'); redis.replicate_commands(); return redis.call('ping')",
    "return tostring(math.random(1000)) .. ' ' .. tostring(math.random()) .. ' ' .. math.random(3, 9)",
    "math.randomseed(7); return {math.random(1000), math.random(1000)}",
    "return {math.random(1000), math.random(1000)}",
    "return redis.call('set', 'z', 1.5) and redis.call('get', 'z')",
    "redis.call('set', 'z', 2^53); return redis.call('get', 'z')",
    "redis.call('set', 'z', 10^16); return redis.call('get', 'z')",
    "redis.call('set', 'z', 10^17); return redis.call('get', 'z')",
    "redis.call('set', 'z', 0.1); return redis.call('get', 'z')",
    "redis.call('set', 'z', -1/3); return redis.call('get', 'z')",
    "return redis.call('get', 'absent')",
    "return type(redis.call('get', 'absent')) .. type(redis.call('incr', 'n'))",
    "return redis.call('mget', 'absent', 'n')",
    "return redis.call('hgetall', 'hash')",
    "return redis.call('set', 'n', 5)",
    "return redis.call('set', 'n', 5).ok",
    "return redis.call('type', 'list').ok",
    "return redis.call('get', 'list')",
    "return redis.pcall('get', 'list')",
    "return redis.pcall('get', 'list').err",
    "local ok, e = pcall(redis.call, 'get', 'list'); return {tostring(ok), type(e), e}",
    "local ok, e = pcall(redis.call, 'nope'); return {tostring(ok), type(e), e}",
    "local ok, e = pcall(function() local x = nil; return x.y end); return {tostring(ok), type(e), e}",
    "local ok, e = xpcall(function() return redis.call('get', 'list') end, function(e) return e end); return {tostring(ok), type(e), e.err}",
    "local ok, e = xpcall(function() error('x') end, function(e) return e .. '!' end); return {tostring(ok), e}",
    "return {pcall(function() return 1, nil, 3 end)}",
    "local ok, e = pcall(error, 'x'); return {tostring(ok), e}",
    "local ok, e = pcall(error, {err='A b'}); return {tostring(ok), type(e), e}",
    "local ok, e = pcall(error, {note='A b'}); return {tostring(ok), type(e), e.note}",
    "return redis.call('nope')",
    "local x = 1\n\nreturn redis.call('get')",
    "return redis.pcall('nope')",
    "return redis.call()",
    "return redis.call({})",
    "return redis.call('get', {})",
    "return redis.call('get', true)",
    "return redis.call('subscribe', 'a')",
    "return redis.call('hello', '3')",
    "return redis.call('eval', 'return 1', 0)",
    "return redis.call('multi')",
    "return redis.call('client', 'id')",
    "return redis.call('set', 'n')",
    "return redis.call('incr', 'text')",
    "error('boo')",
    "error({err='A b'})",
    "return nil + 1",
    "return x",
    "x = 1",
    "function f() end",
    "string.foo = 1",
    "redis.call = 1",
    "return _G.x",
    "foo",
    "return return",
    "return #KEYS .. #ARGV",
    "return {KEYS[1] or 'none', ARGV[1] or 'none'}",
    "#!lua\nreturn 5",
    "return string.format('%.0f', 2^53 - 1)",
    "return {tonumber('0x10'), tonumber('1e3'), tostring(tonumber(''))}",
    "return tostring(10^15) .. tostring(2^53)",
    "return unpack({1, 2, 3})",
    "return {select('#', 1, nil, 2), type(next), _VERSION}",
    "local t = setmetatable({}, {__index = function() return 5 end}); return t.x",
    "return type(os) == 'nil'",
    "return io",
    "return require",
    "return loadfile",
    "return dofile",
    "return print",
    "return debug",
];

fn conversions_agree(resp: Resp) {
    let mut pair = Pair::start(resp);
    for words in [&["RPUSH", "list", "a"][..], &["HSET", "hash", "f", "v"], &["SET", "text", "abc"]] {
        same(&mut pair, words);
    }
    let mut wrong = Vec::new();
    for script in SCRIPTS {
        for words in [&["EVAL", script, "0"][..], &["EVAL", script, "1", "key", "arg"]] {
            let (embedded, real) = pair.ask(words);
            if embedded != real {
                wrong.push(format!("{words:?}: the embedded node says {embedded:?}, Redis {real:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for script in ["return redis.call('get', 'n')", "return redis.call('set', 'n', 1)"] {
        let (embedded, real) = pair.ask(&["EVAL_RO", script, "0"]);
        assert_eq!(embedded, real, "{script}");
    }
}

fn conversions_and_errors_agree_in_resp2() {
    conversions_agree(Resp::V2);
}

fn conversions_and_errors_agree_in_resp3() {
    conversions_agree(Resp::V3);
}

fn digests_agree() {
    let mut pair = Pair::start(Resp::V2);
    let pair = &mut pair;
    let digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"; // of "return 1"
    let upper = digest.to_uppercase();
    same(pair, &["EVALSHA", digest, "0"]);
    same(pair, &["EVALSHA", "ffff", "0"]);
    same(pair, &["SCRIPT", "LOAD", "return 1"]);
    same(pair, &["EVALSHA", digest, "0"]);
    same(pair, &["EVALSHA", &upper, "0"]);
    same(pair, &["SCRIPT", "EXISTS", digest, "ffff", &upper]);
    same(pair, &["SCRIPT", "LOAD", "not lua"]);
    same(pair, &["SCRIPT", "FLUSH", "SOMEHOW"]);
    same(pair, &["SCRIPT", "FLUSH"]);
    same(pair, &["EVALSHA", digest, "0"]);
    same(pair, &["EVAL", "return 1", "0"]);
    same(pair, &["EVALSHA", digest, "0"]);
    same(pair, &["EVAL", "return 1", "2", "a"]);
    same(pair, &["EVAL", "return 1", "x"]);
    same(pair, &["EVAL", "return 1", "-1"]);
    same(pair, &["EVAL", "return 1"]);
    same(pair, &["SCRIPT", "NOPE"]);
}

/// Not compared: Redis would let them run, and answer BUSY to everyone else.
fn scripts_that_do_not_end_are_ended() {
    let mut pair = Pair::start(Resp::V2);
    let node = &mut pair.embedded;
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() return f() end; return f()",
        "redis.call('set', 'kept', 1); while true do end",
    ] {
        let answer = node.ask(&["EVAL", script, "0"]);
        assert!(
            matches!(&answer, Answer::Error(text) if text.starts_with("ERR Script killed")),
            "{script}: {answer:?}"
        );
    }
    assert_eq!(node.ask(&["GET", "kept"]), Answer::Bulk(b"1".to_vec()), "what was done stays done");
    for script in [
        "local t = {}; while true do t[#t + 1] = string.rep('x', 1000000) .. #t end",
        "return string.rep('x', 1000000000)",
        "local function f() return 1 + f() end; return f()",
    ] {
        let answer = node.ask(&["EVAL", script, "0"]);
        assert!(matches!(&answer, Answer::Error(_)), "{script}: {answer:?}");
    }
    // A table that contains itself: cut at some depth, and answered.
    let answer = node.ask(&["EVAL", "local t = {}; t[1] = t; return t", "0"]);
    assert!(matches!(answer, Answer::Array(_)), "{answer:?}");
    assert_eq!(node.ask(&["EVAL", "return 1", "0"]), Answer::Int(1), "and the node goes on");
}
