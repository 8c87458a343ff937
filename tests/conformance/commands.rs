//! Commands that are no scripts, in both versions of the protocol.

use fastrand::Rng;

use crate::pair::{Pair, same_life};
use crate::sequence::{check, pick};
use crate::support::{Live, live_tests};
use crate::wire::{Answer, Resp};

pub(crate) fn tests() -> Vec<Live> {
    live_tests![sync: commands_agree_in_resp2, commands_agree_in_resp3]
}

type Words = Vec<String>;

const KEYS: [&str; 4] = ["a", "b", "c", "some key"];
const VALUES: [&str; 9] =
    ["x", "", "5", "-3", "007", "9223372036854775807", "longer text\r\nwith lines", "1.5", "+1"];
const SPANS: [&str; 12] = [
    "600000",
    "1200",
    "-1",
    "0",
    "x",
    "1.5",
    "",
    "-9223372036854775808",
    "9223372036854775807",
    "99999999999999",
    "600",
    "300000",
];

/// A span that no other command gives: GT and LT must not depend on which of two nodes was a millisecond later.
fn far(rng: &mut Rng) -> String {
    rng.u64(1_000_000..1_000_000_000_000).to_string()
}

/// One word of a command as the table below writes it: a letter in capitals behind `@` stands for something drawn.
fn word(rng: &mut Rng, pattern: &str) -> String {
    match pattern {
        "@far" => return far(rng),
        "@key" => pick(rng, &KEYS),
        "@value" => pick(rng, &VALUES),
        "@span" => pick(rng, &SPANS),
        "@field" => pick(rng, &["f", "g", ""]),
        "@small" => pick(rng, &["0", "1", "-1", "2", "-3", "x", "100"]),
        "@set" => pick(
            rng,
            &["NX", "XX", "GET", "KEEPTTL", "EX", "PX", "EXAT", "PXAT", "nx", "FOO", "600", "600000"],
        ),
        "@when" => pick(rng, &["NX", "XX", "GT", "LT", "gt", "FOO"]),
        "@if" => pick(rng, &["NX", "XX", "xx", "FOO"]),
        "@past" => pick(rng, &["1", "1000", "4102444800000", "4102444800", "0", "-1"]),
        literal => literal,
    }
    .to_owned()
}

const PATTERNS: [&str; 76] = [
    "GET @key",
    "SET @key @value",
    "SET @key @value PX @span",
    "SET @key @value EX 600",
    "SET @key @value NX PX 600000",
    "SET @key @value XX GET",
    "SET @key @value PXAT @past",
    "SET @key @value EXAT @past",
    "SET @key @value KEEPTTL",
    "SET @key @value NX GET",
    "SET @key @value @set",
    "SET @key @value @set @set",
    "SET @key @value @set @set @set",
    "SETNX @key @value",
    "SETEX @key @span @value",
    "PSETEX @key @span @value",
    "GETSET @key @value",
    "GETDEL @key",
    "MGET @key @key @key",
    "MSET @key @value @key @value",
    "MSET @key @value @key",
    "STRLEN @key",
    "APPEND @key @value",
    "INCR @key",
    "DECR @key",
    "INCRBY @key @small",
    "DECRBY @key @small",
    "INCRBY @key @value",
    "DECRBY @key @span",
    "DEL @key",
    "DEL @key @key",
    "UNLINK @key",
    "EXISTS @key @key",
    "TOUCH @key",
    "TYPE @key",
    "PTTL @key",
    "TTL @key",
    "PEXPIRE @key @span",
    "EXPIRE @key @span",
    "PEXPIRE @key @span @if",
    "PEXPIRE @key @far @when @when",
    "EXPIRE @key 300 @if",
    "PEXPIREAT @key @past",
    "EXPIREAT @key @past",
    "PEXPIREAT @key @past @when",
    "PERSIST @key",
    "PEXPIRETIME @key",
    "KEYS *",
    "KEYS [a-b]",
    "HSET @key @field @value",
    "HSET @key @field @value @field @value",
    "HSET @key @field @value @field",
    "HSETNX @key @field @value",
    "HMSET @key @field @value",
    "HGET @key @field",
    "HMGET @key @field @field",
    "HGETALL @key",
    "HKEYS @key",
    "HVALS @key",
    "HLEN @key",
    "HEXISTS @key @field",
    "HDEL @key @field",
    "HINCRBY @key @field @small",
    "RPUSH @key @value @value",
    "LPUSH @key @value",
    "LRANGE @key @small @small",
    "LLEN @key",
    "RPOP @key",
    "LPOP @key",
    "LPOP @key @small",
    "RPOP @key @small",
    "SADD @key @value @value",
    "SREM @key @value",
    "SMEMBERS @key",
    "SISMEMBER @key @value",
    "SCARD @key",
];

fn draw(rng: &mut Rng) -> Vec<Words> {
    (0..rng.usize(5..60)).map(|_| draw_words(rng)).collect()
}

fn draw_words(rng: &mut Rng) -> Words {
    let pattern = pick(rng, &PATTERNS);
    let mut words: Words = pattern.split(' ').map(|part| word(rng, part)).collect();
    match rng.u8(0..40) {
        0 if words.len() > 1 => {
            words.pop();
        }
        1 => words.push("more".to_owned()),
        2 => words[0].make_ascii_lowercase(),
        3 => words[0].push('Q'),
        _ => {}
    }
    words
}

/// Whether the order of the answer is the server's own business.
fn unordered(name: &str) -> bool {
    matches!(name, "KEYS" | "HKEYS" | "HVALS" | "SMEMBERS" | "HGETALL")
}

/// HGETALL in RESP2 is a flat list: sorted by pairs, or a value might pass for a field.
fn arrange(name: &str, answer: Answer) -> Answer {
    match answer {
        Answer::Array(items) if name == "HGETALL" => {
            let pairs = items.chunks(2).map(|pair| Answer::Array(pair.to_vec())).collect();
            Answer::Array(pairs).sorted()
        }
        answer if unordered(name) => answer.sorted(),
        answer => answer,
    }
}

fn agree(words: &Words, embedded: &Answer, real: &Answer) -> bool {
    match (words[0].to_ascii_uppercase().as_str(), embedded, real) {
        ("PTTL" | "PEXPIRETIME", Answer::Int(one), Answer::Int(other)) => same_life(*one, *other),
        ("TTL", Answer::Int(one), Answer::Int(other)) => {
            same_life(one.saturating_mul(1000), other.saturating_mul(1000))
        }
        _ => embedded == real,
    }
}

fn run(pair: &mut Pair, steps: &[Words]) -> Result<(), String> {
    pair.reset();
    for words in steps {
        let (embedded, real) = pair.ask(words);
        let name = words[0].to_ascii_uppercase();
        let (embedded, real) = (arrange(&name, embedded), arrange(&name, real));
        if !agree(words, &embedded, &real) {
            return Err(format!("{words:?}: the embedded node says {embedded:?}, Redis {real:?}"));
        }
    }
    Ok(())
}

fn commands_agree_in_resp2() {
    let mut pair = Pair::start(Resp::V2);
    check(500, draw, |steps| run(&mut pair, steps));
}

fn commands_agree_in_resp3() {
    let mut pair = Pair::start(Resp::V3);
    check(300, draw, |steps| run(&mut pair, steps));
}
