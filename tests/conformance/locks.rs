//! Our seven scripts: the reference, the embedded node and a real Redis.

use fastrand::Rng;
use redfence::backend::redlock::scripts::{Keys, NODE_RECORD, Script};
use redfence::proto::message::{MAX_HINT_LEAD, MAX_NUMBER, Owner, Record, Reply, Request};
use redfence::proto::node::{NodeState, Obstacle, execute};
use redfence::proto::validity::Ttl;

use crate::pair::{Pair, same_life};
use crate::sequence::{check, pick};
use crate::support::{Live, live_tests};
use crate::wire::{Answer, Resp};

pub(crate) fn tests() -> Vec<Live> {
    live_tests![sync:
        the_reference_the_embedded_node_and_redis_agree,
        the_scripts_agree_whatever_the_keys_and_arguments_hold,
        a_release_is_published_by_both,
    ]
}

const OWNERS: [u128; 3] = [0xA, 0xB, u128::MAX];
const LIVES: [u64; 2] = [600_000, 1_200_000];
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

fn keys() -> Keys {
    Keys::new("", "res")
}

/// How a script is sent.
#[derive(Clone, Copy, Debug)]
enum By {
    Text,
    /// By digest; the text follows if it is not known.
    Digest,
}

fn digest(script: Script) -> String {
    sha1_smol::Sha1::from(script.text()).digest().to_string()
}

fn call(script: Script, by: By, keys: &[&str], argv: &[String]) -> Vec<String> {
    let (name, body) = match by {
        By::Text => ("EVAL", script.text().to_owned()),
        By::Digest => ("EVALSHA", digest(script)),
    };
    let head = [name.to_owned(), body, keys.len().to_string()];
    head.into_iter().chain(keys.iter().map(|&key| key.to_owned())).chain(argv.iter().cloned()).collect()
}

/// Asks both nodes by script; a script that is not known is sent as text, if both say so.
fn ask(
    pair: &mut Pair,
    script: Script,
    by: By,
    keys: &[&str],
    argv: &[String],
) -> Result<(Answer, Answer), String> {
    let (embedded, real) = pair.ask(&call(script, by, keys, argv));
    match (&embedded, &real) {
        (Answer::Error(one), Answer::Error(other)) if one.starts_with("NOSCRIPT") => {
            if one != other {
                return Err(format!("embedded says {one}, Redis {other}"));
            }
            Ok(pair.ask(&call(script, By::Text, keys, argv)))
        }
        _ => Ok((embedded, real)),
    }
}

/// The words of an error that a script lets through, without the place that Redis adds.
fn without_place(answer: Answer) -> Answer {
    match answer {
        Answer::Error(text) => Answer::Error(text.split(" script: ").next().unwrap_or_default().to_owned()),
        other => other,
    }
}

/// Compares answers of a script; the lives of keys stand at a place that the script defines.
fn same_answer(script: Script, one: &Answer, other: &Answer) -> bool {
    let place = match script {
        Script::Acquire => 2,
        Script::Inspect => 1,
        _ => return one == other,
    };
    let (Answer::Array(one), Answer::Array(other)) = (one, other) else {
        return one == other;
    };
    // A grant has its epoch at this place.
    let told = script == Script::Inspect || one.first() == Some(&Answer::Int(0));
    let same = |(at, (one, other)): (usize, (&Answer, &Answer))| match (one, other) {
        (Answer::Int(one), Answer::Int(other)) if told && at == place => same_life(*one, *other),
        (one, other) => one == other,
    };
    one.len() == other.len() && one.iter().zip(other).enumerate().all(same)
}

/// One step that the reference can express.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(Request, By),
    /// The life of the key ends.
    Expire,
    /// The node loses its data.
    Wipe,
    ForgetScripts,
}

fn draw_steps(rng: &mut Rng) -> Vec<Step> {
    let steps = rng.usize(5..40);
    let ready = Step::Ask(
        Request::Init { epoch: 1, floor: pick(rng, &[0, 5, 1_000_000_000_000_000, MAX_NUMBER - 3]) },
        By::Text,
    );
    let first = (rng.u8(0..8) > 0).then_some(ready);
    first.into_iter().chain((0..steps).map(|_| draw_step(rng))).collect()
}

fn draw_step(rng: &mut Rng) -> Step {
    let owner = Owner(pick(rng, &OWNERS));
    let ttl = Ttl::from_millis(pick(rng, &LIVES)).expect("a TTL");
    let large = [MAX_HINT_LEAD, MAX_HINT_LEAD + 1, MAX_HINT_LEAD + 2, MAX_NUMBER, MAX_NUMBER + 1, u64::MAX];
    let number = if rng.bool() { rng.u64(0..12) } else { pick(rng, &large) };
    let request = match rng.u8(0..25) {
        0..5 => Request::Acquire { owner, ttl, hint: number },
        5 => Request::AcquireClassic { owner, ttl },
        6..9 => Request::Confirm { owner, number },
        9..11 => Request::Extend { owner, ttl },
        11..14 => Request::Release { owner },
        14..16 => Request::Inspect,
        16 => Request::Init { epoch: rng.u64(1..4), floor: number },
        17 => return Step::ForgetScripts,
        18 | 19 => return Step::Expire,
        20 => return if rng.u8(0..6) == 0 { Step::Wipe } else { Step::Expire },
        21 => Request::Claim { epoch: number },
        22 => Request::Raise { epoch: number },
        _ => Request::Admit { epoch: number, floor: rng.u64(0..9) },
    };
    Step::Ask(request, if rng.bool() { By::Text } else { By::Digest })
}

/// The script that asks a request, with its keys and arguments.
fn script(request: Request, keys: &Keys) -> (Script, Vec<&str>, Vec<String>) {
    let all = || vec![keys.lock.as_str(), keys.counter.as_str(), NODE_RECORD];
    let readmit = |step: &str, epoch: u64, floor: u64| {
        (Script::Readmit, vec![NODE_RECORD], vec![step.to_owned(), epoch.to_string(), floor.to_string()])
    };
    match request {
        Request::Acquire { owner, ttl, hint } => {
            (Script::Acquire, all(), vec![owner.to_string(), ttl.as_millis().to_string(), hint.to_string()])
        }
        Request::Confirm { owner, number } => {
            (Script::Confirm, all(), vec![owner.to_string(), number.to_string()])
        }
        Request::Extend { owner, ttl } => {
            (Script::Extend, vec![&keys.lock], vec![owner.to_string(), ttl.as_millis().to_string()])
        }
        Request::Release { owner } => {
            (Script::Release, vec![&keys.lock], vec![owner.to_string(), keys.channel.clone()])
        }
        Request::Inspect => (Script::Inspect, all(), Vec::new()),
        Request::Init { epoch, floor } => {
            (Script::Init, vec![NODE_RECORD], vec![epoch.to_string(), floor.to_string()])
        }
        Request::Claim { epoch } => readmit("claim", epoch, 0),
        Request::Raise { epoch } => readmit("raise", epoch, 0),
        Request::Admit { epoch, floor } => readmit("admit", epoch, floor),
        Request::AcquireClassic { .. } => unreachable!("a command, not a script"),
    }
}

fn int(number: u64) -> Answer {
    Answer::Int(i64::try_from(number).expect("a number that Redis can send"))
}

fn array(numbers: &[u64]) -> Answer {
    Answer::Array(numbers.iter().map(|&number| int(number)).collect())
}

/// What a script answers, said from the reference alone.
fn spell(node: &NodeState, request: Request, outcome: Result<Reply, Obstacle>) -> Answer {
    let left = node.lock.map_or(Answer::Int(-2), |(_, left)| int(left));
    let classic = matches!(request, Request::AcquireClassic { .. });
    match outcome {
        Err(Obstacle::WrongType) => Answer::Error(WRONG_TYPE.into()),
        Err(Obstacle::NoTtl) => Answer::Error("NOTTL the key has no TTL: it is not a lock".into()),
        Err(Obstacle::NotANumber) => Answer::Error("NOTANUMBER".into()),
        Err(Obstacle::NotRaised) => Answer::Error("NOTRAISED empty, or the epoch is not smaller".into()),
        Err(Obstacle::Exhausted) => Answer::Error("EXHAUSTED the numbers end at 2^53 - 1".into()),
        Ok(Reply::Mine(_)) if classic => Answer::Status("OK".into()),
        Ok(Reply::Taken { .. }) if classic => Answer::Null,
        Ok(Reply::Mine(stand)) => array(&[1, stand.number, stand.epoch]),
        Ok(Reply::Taken { number }) => Answer::Array(vec![Answer::Int(0), int(number), left]),
        Ok(Reply::NotMine) if matches!(request, Request::Confirm { .. }) => array(&[0]),
        Ok(Reply::NotMine) => Answer::Int(0),
        Ok(Reply::Empty) => Answer::Array(vec![Answer::Int(-1)]),
        Ok(Reply::Extended | Reply::Released) => Answer::Int(1),
        Ok(Reply::Record(Record { epoch, floor, high, joining })) => {
            let or_none = |number: Option<u64>| number.map_or(Answer::Int(-1), int);
            let mut record = vec![or_none(epoch), int(floor), int(high)];
            if !matches!(request, Request::Init { .. }) {
                record.push(or_none(joining));
            }
            let holder =
                node.lock.map_or(Answer::Null, |(owner, _)| Answer::Bulk(owner.to_string().into_bytes()));
            let counter = node.counter.map_or(Answer::Int(-1), int);
            let more = if request == Request::Inspect { vec![holder, left, counter] } else { Vec::new() };
            Answer::Array(more.into_iter().chain(record).collect())
        }
        Ok(Reply::Refused | Reply::Unknown) => unreachable!("a node does not say this of itself"),
    }
}

fn the_reference_the_embedded_node_and_redis_agree() {
    let mut pair = Pair::start(Resp::V2);
    check(400, draw_steps, |steps| {
        pair.reset();
        let mut reference = NodeState::default();
        steps.iter().try_for_each(|step| compare_three(&mut pair, &mut reference, *step))
    });
}

fn compare_three(pair: &mut Pair, reference: &mut NodeState, step: Step) -> Result<(), String> {
    let keys = keys();
    let (request, by) = match step {
        Step::Ask(request, by) => (request, by),
        Step::Expire => {
            reference.expire();
            pair.ask(&["PEXPIRE", &keys.lock, "-1"]);
            return Ok(());
        }
        Step::Wipe => {
            reference.wipe();
            pair.reset();
            return Ok(());
        }
        Step::ForgetScripts => {
            pair.ask(&["SCRIPT", "FLUSH"]);
            return Ok(());
        }
    };
    let outcome = execute(reference, request);
    let expected = spell(reference, request, outcome);
    let (embedded, real) = answers(pair, request, by)?;
    let same = |answer: &Answer| match request {
        Request::AcquireClassic { .. } => expected == *answer,
        _ => same_answer(script(request, &keys).0, &expected, answer),
    };
    if same(&embedded) && same(&real) {
        return Ok(());
    }
    Err(format!(
        "{request:?}: the reference says {expected:?}, the embedded node {embedded:?}, Redis {real:?}"
    ))
}

/// What both nodes answer to one request.
fn answers(pair: &mut Pair, request: Request, by: By) -> Result<(Answer, Answer), String> {
    let keys = keys();
    if let Request::AcquireClassic { owner, ttl } = request {
        let (owner, ttl) = (owner.to_string(), ttl.as_millis().to_string());
        return Ok(pair.ask(&["SET", &keys.lock, &owner, "NX", "PX", &ttl]));
    }
    let (script, keys, argv) = script(request, &keys);
    let (embedded, real) = ask(pair, script, by, &keys, &argv)?;
    Ok((without_place(embedded), without_place(real)))
}

/// One step in a world that holds anything.
#[derive(Clone, Debug)]
enum Anything {
    Command(Vec<String>),
    Script(Script, By, Vec<String>),
}

const GARBAGE: [&str; 14] = [
    "abc",
    "",
    "-1",
    "1.5",
    "007",
    "9007199254740990",
    "9007199254740991",
    "9007199254740993",
    "9999999999999999",
    "12345678901234567",
    " 5",
    "1e3",
    "0x10",
    "5",
];

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn draw_anything(rng: &mut Rng) -> Vec<Anything> {
    let ready = rng
        .bool()
        .then(|| Anything::Command(owned(&["HSET", NODE_RECORD, "epoch", "1", "floor", "4", "high", "4"])));
    let steps = rng.usize(3..25);
    ready.into_iter().chain((0..steps).map(|_| draw_one(rng))).collect()
}

fn draw_one(rng: &mut Rng) -> Anything {
    let keys = keys();
    let (a, b) = (Owner(OWNERS[0]).to_string(), Owner(OWNERS[1]).to_string());
    let garbage = pick(rng, &GARBAGE);
    let any = pick(rng, &[keys.lock.as_str(), &keys.counter, NODE_RECORD]);
    let command = match rng.u8(0..40) {
        0 => owned(&["RPUSH", any, garbage]),
        1 => owned(&["DEL", any]),
        2 => owned(&["SET", any, garbage]),
        3 => owned(&["SET", &keys.counter, garbage]),
        4 => owned(&["SET", &keys.lock, pick(rng, &[a.as_str(), &b, garbage]), "PX", "600000"]),
        5 => owned(&["SET", &keys.lock, &a]),
        6 => owned(&["HSET", NODE_RECORD, pick(rng, &["epoch", "floor", "high", "joining"]), garbage]),
        7 => owned(&["HDEL", NODE_RECORD, pick(rng, &["epoch", "floor", "high", "joining"])]),
        8 => owned(&["HSET", any, "epoch", "2"]),
        9 => owned(&["PEXPIRE", any, pick(rng, &["-1", "600000"])]),
        10 => owned(&["PERSIST", any]),
        11 => owned(&["SADD", any, "x"]),
        12 => owned(&["SCRIPT", "FLUSH"]),
        _ => return draw_script(rng, &a, &b),
    };
    Anything::Command(command)
}

fn draw_script(rng: &mut Rng, a: &str, b: &str) -> Anything {
    let script = pick(rng, &Script::ALL);
    let owner = pick(rng, &[a, a, a, b, "me", "", "ABCDEF"]).to_owned();
    let ttl =
        pick(rng, &["600000", "600000", "1200000", "0", "-5", "abc", "1.5", "", "2147483648"]).to_owned();
    let number = pick(
        rng,
        &[
            "0",
            "1",
            "3",
            "7",
            "9007199254740991",
            "9007199254740992",
            "4294967301",
            "18446744073709551615",
            "1e3",
            "abc",
            "-7",
            "1.5",
            "",
        ],
    )
    .to_owned();
    let channel = keys().channel;
    let mut argv = match script {
        Script::Acquire => vec![owner, ttl, number],
        Script::Confirm => vec![owner, number],
        Script::Extend => vec![owner, ttl],
        Script::Release => vec![owner, channel],
        Script::Inspect => vec![],
        Script::Init => {
            vec![pick(rng, &["1", "2", "0", "007", "abc", "9007199254740993"]).to_owned(), number]
        }
        Script::Readmit => {
            let step = pick(rng, &["claim", "claim", "raise", "admit", "admit", "CLAIM", ""]).to_owned();
            vec![step, pick(rng, &["1", "2", "3", "007", "abc", "9007199254740993"]).to_owned(), number]
        }
    };
    match rng.u8(0..30) {
        0 => {
            argv.pop();
        }
        1 => argv.push("more".to_owned()),
        _ => {}
    }
    Anything::Script(script, if rng.bool() { By::Text } else { By::Digest }, argv)
}

fn the_scripts_agree_whatever_the_keys_and_arguments_hold() {
    let mut pair = Pair::start(Resp::V2);
    check(800, draw_anything, |steps| {
        pair.reset();
        steps.iter().try_for_each(|step| compare_two(&mut pair, step))
    });
}

fn compare_two(pair: &mut Pair, step: &Anything) -> Result<(), String> {
    let names = keys();
    let same = match step {
        Anything::Command(words) => {
            let (embedded, real) = pair.ask(words);
            if embedded == real { Ok(()) } else { Err((embedded, real)) }
        }
        Anything::Script(script, by, argv) => {
            let all = [names.lock.as_str(), &names.counter, NODE_RECORD];
            let keys = match script {
                Script::Acquire | Script::Confirm | Script::Inspect => &all[..],
                Script::Extend | Script::Release => &all[..1],
                Script::Init | Script::Readmit => &all[2..],
            };
            let (embedded, real) = ask(pair, *script, *by, keys, argv)?;
            let (embedded, real) = (without_place(embedded), without_place(real));
            if same_answer(*script, &embedded, &real) { Ok(()) } else { Err((embedded, real)) }
        }
    };
    same.map_err(|(embedded, real)| {
        format!("{step:?}: the embedded node says {embedded:?}, Redis {real:?}")
    })?;
    [names.lock.as_str(), &names.counter, NODE_RECORD].iter().try_for_each(|key| same_content(pair, key))
}

/// Whether a key holds the same at both.
fn same_content(pair: &mut Pair, key: &str) -> Result<(), String> {
    let (kind, real) = pair.ask(&["TYPE", key]);
    if kind != real {
        return Err(format!("{key} is a {kind:?} at the embedded node, a {real:?} at Redis"));
    }
    let read: &[&str] = match &kind {
        Answer::Status(kind) if kind == "string" => &["GET", key],
        Answer::Status(kind) if kind == "hash" => &["HMGET", key, "epoch", "floor", "high", "joining"],
        Answer::Status(kind) if kind == "list" => &["LRANGE", key, "0", "-1"],
        Answer::Status(kind) if kind == "set" => &["SMEMBERS", key],
        _ => return Ok(()),
    };
    let (embedded, real) = pair.ask(read);
    if embedded.clone().sorted() != real.clone().sorted() {
        return Err(format!("{key} holds {embedded:?} at the embedded node, {real:?} at Redis"));
    }
    match pair.ask(&["PTTL", key]) {
        (Answer::Int(embedded), Answer::Int(real)) if same_life(embedded, real) => Ok(()),
        (embedded, real) => Err(format!("{key} lives {embedded:?} at the embedded node, {real:?} at Redis")),
    }
}

fn a_release_is_published_by_both() {
    let mut pair = Pair::start(Resp::V2);
    let names = keys();
    let owner = Owner(7).to_string();
    let (mut embedded, mut real) = pair.connect();
    for ear in [&mut embedded, &mut real] {
        ear.ask(&["SUBSCRIBE", &names.channel]);
    }
    pair.ask(&["SET", &names.lock, &owner, "PX", "600000"]);
    let foreign = [Owner(8).to_string(), names.channel.clone()];
    let mine = [owner, names.channel.clone()];
    for (argv, expected) in [(&foreign, 0), (&mine, 1), (&mine, 0)] {
        let answers = ask(&mut pair, Script::Release, By::Text, &[&names.lock], argv).expect("answers");
        assert_eq!(answers, (Answer::Int(expected), Answer::Int(expected)));
    }
    let bulk = |text: &str| Answer::Bulk(text.as_bytes().to_vec());
    let heard = Answer::Array(vec![bulk("message"), bulk(&names.channel), bulk(&names.lock)]);
    // One message for the one release that did something: what follows is the answer to the next question.
    for ear in [&mut embedded, &mut real] {
        assert_eq!(ear.read(), heard);
        assert_eq!(ear.ask(&["PING"]), Answer::Array(vec![bulk("pong"), bulk("")]));
    }
}
