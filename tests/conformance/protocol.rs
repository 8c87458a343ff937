//! The protocol itself: bytes in, bytes out.

use std::time::Duration;

use crate::pair::Pair;
use crate::support::{Live, live_tests};
use crate::wire::{Answer, Resp};

pub(crate) fn tests() -> Vec<Live> {
    live_tests![sync:
        bytes_agree,
        admin_commands_agree,
        a_subscriber_hears_the_same,
        passwords_are_asked_for_in_the_same_words,
        greetings_agree,
    ]
}

/// Conversations whose answers are the same bytes; the first word in each is the whole input.
const CONVERSATIONS: &[&str] = &[
    "PING\r\n",
    "PING\n",
    "\r\n\r\nPING\r\n",
    "*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n",
    "*1\r\n*1\r\n$4\r\nping\r\n",
    "*x\r\nPING\r\n",
    "*1\r\n$-1\r\n",
    "*1\r\n$x\r\n",
    "*-1\r\nping\r\n",
    "*0\r\nping\r\n",
    "*1\r\n$999999999999\r\n",
    "set \"a b\" 'c\\'d'\r\nget \"a b\"\r\n",
    "set \"a\r\n",
    "set a \"\\x41\\n\"\r\nget a\r\n",
    "foo a b\r\nFOO\r\nget\r\nset a\r\n",
    "ECHO hi\r\nPING hi\r\nPING a b\r\nQUIT\r\nPING\r\n",
    "SELECT 0\r\nSELECT 99\r\nSELECT x\r\n",
    "MULTI\r\nSET a 1\r\nFOO\r\nEXEC\r\nMULTI\r\nMULTI\r\nWATCH a\r\nGET l\r\nPING\r\nEXEC\r\n",
    "EXEC\r\nDISCARD\r\nMULTI\r\nSET a 2\r\nDISCARD\r\nGET a\r\n",
    "MULTI\r\nINCR a\r\nRPUSH a x\r\nINCR a\r\nEXEC\r\nGET a\r\n",
    "WATCH w\r\nSET w 1\r\nMULTI\r\nGET w\r\nEXEC\r\nMULTI\r\nGET w\r\nEXEC\r\n",
    "WATCH w v\r\nMULTI\r\nSET w 1\r\nEXEC\r\nWATCH w\r\nUNWATCH\r\nSET w 2\r\nMULTI\r\nGET w\r\nEXEC\r\n",
    "SET w 1 PX 600000\r\nWATCH w\r\nDEL w\r\nSET w 1\r\nMULTI\r\nPING\r\nEXEC\r\n",
    "MULTI\r\nEVAL \"return redis.call('incr','a')\" 0\r\nEXEC\r\n",
    "MULTI\r\nPUBLISH a b\r\nRESET\r\nEXEC\r\n",
    "SUBSCRIBE a\r\nGET x\r\nPING\r\nPING x\r\nUNSUBSCRIBE\r\nUNSUBSCRIBE\r\nPUNSUBSCRIBE x\r\nRESET\r\nGET x\r\n",
    "SUBSCRIBE a\r\nPSUBSCRIBE b*\r\nUNSUBSCRIBE a\r\nPUNSUBSCRIBE b*\r\nPING\r\n",
    "SUBSCRIBE a a\r\nQUIT\r\n",
    "HELLO 3\r\nSUBSCRIBE a\r\nGET x\r\nPING\r\nUNSUBSCRIBE\r\nUNSUBSCRIBE\r\nHGETALL nope\r\nQUIT\r\n",
    "HELLO 3\r\nWATCH w\r\nSET w 1\r\nMULTI\r\nGET w\r\nEXEC\r\n",
    "HELLO 3\r\nSET foo bar\r\nSET foo x NX\r\nSET foo y GET\r\nTTL foo\r\nSMEMBERS q\r\nMGET a b\r\n",
    "HELLO 3\r\nEVAL \"return {false,true,1.5,'x',{ok='y'}}\" 0\r\nHELLO 2\r\nEVAL \"return {false}\" 0\r\n",
];

/// The number of the connection is each server's own.
fn without_id(text: &str) -> String {
    let mut parts = text.split("\r\n$2\r\nid\r\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |told, part| told + " (id) " + part.split_once("\r\n").map_or("", |(_, rest)| rest))
}

fn bytes_agree() {
    let mut pair = Pair::start(Resp::V2);
    for conversation in CONVERSATIONS {
        pair.reset();
        pair.ask(&["RPUSH", "l", "x"]);
        let (mut embedded, mut real) = pair.connect();
        for wire in [&mut embedded, &mut real] {
            wire.send_bytes(conversation.as_bytes());
        }
        let silence = Duration::from_millis(400);
        let (embedded, real) = (embedded.drain(silence), real.drain(silence));
        assert_eq!(without_id(&embedded), without_id(&real), "{conversation:?}: embedded node, Redis");
    }
}

fn admin_commands_agree() {
    let mut pair = Pair::start(Resp::V2);
    for line in [
        "AUTH foo",
        "AUTH a b",
        "AUTH default anything",
        "AUTH a b c",
        "HELLO 4",
        "HELLO x",
        "HELLO 2 FOO",
        "HELLO 2 AUTH a b",
        "CLIENT FOO",
        "CLIENT",
        "CLIENT GETNAME",
        "CLIENT SETNAME me",
        "CLIENT GETNAME",
        "CLIENT SETNAME a\u{e9}",
        "CLIENT KILL ID 99999",
        "CLIENT KILL ID x",
        "CLIENT KILL a:1",
        "CLIENT KILL TYPE foo",
        "CLIENT KILL TYPE pubsub",
        "CLIENT KILL FOO bar",
        "CLIENT NO-EVICT on",
        "SCRIPT FOO",
        "SCRIPT KILL",
        "CONFIG FOO",
        "CONFIG SET appendonly",
        "CONFIG SET foo bar",
        "CONFIG GET maxmemory-policy",
        "CONFIG GET nope",
        "WAIT 0 0",
        "WAIT x 0",
        "ROLE",
        "PUBLISH a",
        "PUBLISH a b",
        "PUBSUB CHANNELS",
        "PUBSUB NUMSUB a",
        "PUBSUB NUMPAT",
        "SUBSCRIBE",
        "PERSIST",
        "SCAN x",
        "SCAN 0 COUNT 0",
        "SCAN 0 MATCH",
        "COMMAND INFO nope",
        "COMMAND NOPE",
        "FLUSHALL FOO",
        "RESET",
        "LASTSAVE x",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let (embedded, real) = pair.ask(&words);
        assert_eq!(embedded, real, "{line}: embedded node, Redis");
    }
}

fn a_subscriber_hears_the_same() {
    for resp in [Resp::V2, Resp::V3] {
        let mut pair = Pair::start(Resp::V2);
        let (embedded, real) = pair.connect();
        let (mut embedded, mut real) = (embedded.upgrade(resp), real.upgrade(resp));
        // Which of several matching patterns comes first is the server's own business.
        let mut both = |words: &[&str], answers: usize| {
            let told = [&mut embedded, &mut real].map(|wire| {
                wire.send(words);
                Answer::Array((0..answers).map(|_| wire.read()).collect()).sorted()
            });
            assert_eq!(told[0], told[1], "{words:?} in {resp:?}: embedded node, Redis");
        };
        both(&["SUBSCRIBE", "news", "other"], 2);
        both(&["PSUBSCRIBE", "n*", "*s", "x?"], 3);
        assert_eq!(pair.ask(&["PUBLISH", "news", "hello"]), (Answer::Int(3), Answer::Int(3)));
        assert_eq!(pair.ask(&["PUBLISH", "xy", ""]), (Answer::Int(1), Answer::Int(1)));
        assert_eq!(pair.ask(&["PUBLISH", "nobody", "hello"]), (Answer::Int(1), Answer::Int(1)));
        assert_eq!(pair.ask(&["PUBLISH", "silence", "hello"]), (Answer::Int(0), Answer::Int(0)));
        both(&["PING"], 6);
        both(&["PUNSUBSCRIBE", "n*"], 1);
        both(&["UNSUBSCRIBE", "other"], 1);
        assert_eq!(pair.ask(&["PUBLISH", "news", "again"]), (Answer::Int(2), Answer::Int(2)));
        both(&["PING"], 3);
    }
}

fn passwords_are_asked_for_in_the_same_words() {
    use crate::pair::Embedded;
    use crate::support::Options;
    use crate::wire::Wire;
    use redfence::node::NodeOptions;

    let node = Embedded::with(&NodeOptions::new().password("secret"));
    let server = Options::new().append_only(false).password("secret").start();
    let (mut embedded, mut real) = (Wire::connect(node.address()), Wire::connect(server.addr()));
    for line in [
        "PING",
        "GET a",
        "FOO",
        "HELLO 2",
        "HELLO 2 AUTH default wrong",
        "AUTH wrong",
        "AUTH default wrong",
        "AUTH nobody secret",
        "PING",
        "AUTH secret",
        "PING",
        "RESET",
        "PING",
        "AUTH default secret",
        "PING",
        "AUTH wrong",
        "PING",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(embedded.ask(&words), real.ask(&words), "{line}: embedded node, Redis");
    }
    let (mut embedded, mut real) = (Wire::connect(node.address()), Wire::connect(server.addr()));
    for wire in [&mut embedded, &mut real] {
        assert!(matches!(
            wire.ask(&["HELLO", "2", "AUTH", "default", "secret", "SETNAME", "me"]),
            Answer::Array(_)
        ));
        assert_eq!(wire.ask(&["CLIENT", "GETNAME"]), Answer::Bulk(b"me".to_vec()));
    }
}

fn greetings_agree() {
    let mut pair = Pair::start(Resp::V2);
    let fields = |answer: Answer| match answer {
        Answer::Array(items) => items
            .chunks(2)
            .map(|pair| format!("{pair:?}"))
            .filter(|pair| !pair.contains("\"id\""))
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let (embedded, real) = pair.ask(&["HELLO"]);
    let (embedded, real) = (fields(embedded), fields(real));
    // The version of the server that happens to be here may be another than the one imitated.
    let same = |told: &[String]| {
        told.iter().filter(|pair| !pair.contains("\"version\"")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(same(&embedded), same(&real));
}
