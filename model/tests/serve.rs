//! The page over a real socket: every route, and what happens to bad input.

#[path = "support/server.rs"]
mod server;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use server::Server;

impl Server {
    fn say(&self, head: &str, body: &str) -> Reply {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let length = body.len();
        let form = "Content-Type: application/x-www-form-urlencoded";
        write!(stream, "{head}\r\n{form}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
            .expect("sent");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        Reply { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Reply {
        self.say(&format!("GET {path} HTTP/1.1\r\nHost: {}", self.address), "")
    }

    fn post(&self, path: &str, body: &str) -> Reply {
        self.say(&format!("POST {path} HTTP/1.1\r\nHost: {}", self.address), body)
    }

    /// Asks again as long as it is being searched.
    fn get_found(&self, path: &str) -> Reply {
        for _ in 0..60 {
            let reply = self.get(path);
            if reply.status != 202 {
                return reply;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        panic!("{path} is still being searched");
    }

    fn progress(&self) -> serde_json::Value {
        serde_json::from_str(&self.get("/run/progress").body).expect("one JSON document")
    }

    fn wait_for_the_run(&self) -> serde_json::Value {
        for _ in 0..1_200 {
            let now = self.progress();
            if now["running"] == false {
                return now;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the run does not end");
    }
}

struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    #[track_caller]
    fn says(&self, status: u16, parts: &[&str]) -> &Self {
        assert_eq!(self.status, status, "{}", self.body);
        for part in parts {
            assert!(self.body.contains(part), "{part} is not in\n{}", self.body);
        }
        self
    }
}

#[test]
fn every_page_is_there_and_asks_nothing_of_other_hosts() {
    let server = Server::start();
    server.get("/").says(
        200,
        &[
            "What Redlock can and cannot do",
            "C9 ",
            "violated in",
            "\u{21b3} repaired",
            "id=\"fact5-fence-timed\"",
        ],
    );
    server
        .get("/tour")
        .says(200, &["5. The largest of several counters", "/trace/s3-empty-restart/belief/svg"]);
    let trace = server.get_found("/trace/s3-empty-restart/belief");
    trace.says(
        200,
        &["<svg", "violates belief", "step 11 of 11", "What can happen next", "The diagram as a table"],
    );
    server
        .get("/trace/s3-empty-restart/belief?at=9")
        .says(200, &["WIPE 0", "step 9 of 11", "\u{2713} belief"]);
    server.get("/path/s3-empty-restart").says(200, &["step 0 of 0", "A starts: asks every node"]);
    let fork = server.get("/path/s3-empty-restart?steps=0.0.0&at=2&from=belief");
    fork.says(200, &["what if?", "The trace it was forked from", "step 2 of 3"]);
    let pair = server.get("/compare?a=s3-empty-restart/belief&b=s3-empty-restart-repaired");
    pair.says(200, &["first difference", "cannot happen there"]);
    server.get("/run?scenario=fact7-classic").says(200, &["Search a scenario"]);
    server.get("/style.css").says(200, &["prefers-color-scheme"]);
    server.get("/app.js").says(200, &["keydown"]);
    for path in ["/", "/tour", "/trace/s3-empty-restart/belief", "/run"] {
        let reply = server.get(path);
        assert!(reply.head.contains("default-src 'none'"), "{}", reply.head);
        let strange = reply.body.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !strange.contains("http://") && !strange.contains("https://") && !strange.contains("src=\"//"),
            "{path}"
        );
    }
}

#[test]
fn a_trace_can_be_taken_away() {
    let server = Server::start();
    let json = server.get_found("/trace/s3-empty-restart/belief/json");
    let trace: redfence_model::trace::Trace = serde_json::from_str(&json.body).expect("a trace");
    assert_eq!(trace.steps.len(), 11);
    let path: Vec<String> = trace.path().expect("a path").iter().map(usize::to_string).collect();
    let again = server.get(&format!("/path/s3-empty-restart/json?steps={}", path.join(".")));
    assert_eq!(again.body, json.body, "the steps in the address are the whole trace");
    let svg = server.get("/trace/s3-empty-restart/belief/svg");
    svg.says(200, &["<?xml", "</svg>"]);
    assert!(svg.head.contains("image/svg+xml"));
    let html = server.get("/trace/s3-empty-restart/belief/html");
    html.says(200, &["<svg", "<style>", "whose keys"]);
    assert!(!html.body.contains("<script") && !html.body.contains("<link"), "it needs nothing else");
}

#[test]
fn bad_addresses_get_a_page_that_says_what_is_wrong() {
    let server = Server::start();
    server.get("/path/s3-empty-restrt").says(404, &["no scenario is named", "s3-empty-restart"]);
    server
        .get("/trace/s3-empty-restart/beleif")
        .says(404, &["has no property named", "/trace/s3-empty-restart/belief"]);
    server.get_found("/trace/fact7-classic/belief").says(404, &["there is no trace"]);
    server.get("/path/s3-empty-restart?steps=0.99").says(404, &["step 2 is not possible: action 99"]);
    server.get("/path/s3-empty-restart?steps=0.x").says(400, &["steps are numbers"]);
    server.get("/path/s3-empty-restart?steps=-1").says(400, &["steps are numbers"]);
    server.get("/path/s3-empty-restart?steps=99999999999999999999999").says(400, &["steps are numbers"]);
    server.get(&format!("/path/s3-empty-restart?steps=0{}", ".0".repeat(1_000))).says(400, &["at most 1000"]);
    server.get("/path/s3-empty-restart?steps=0&at=7").says(404, &["there is no step 7"]);
    server.get("/path/s3-empty-restart?at=many").says(400, &["number of a step"]);
    server.get("/path/s3-empty-restart/pdf").says(404, &["json, svg or html"]);
    server.get("/compare").says(400, &["is missing"]);
    server.get("/compare?a=s3-empty-restart&b=x").says(400, &["is not SCENARIO/PROPERTY"]);
    server.get("/nowhere").says(404, &["there is no page /nowhere"]);
    server.get("/%3Cscript%3E/%ff").says(404, &["there is no page"]);
    server.get("/path/%ff").says(400, &["UTF-8"]);
    server.get("/path/%3Cscript%3Ealert(1)%3C%2Fscript%3E").says(404, &["&lt;script&gt;"]);
    server.post("/tour", "").says(405, &["POST is not possible"]);
    server.post("/run", "nonsense").says(400, &["`scenario` is missing"]);
    server.post("/run", "scenario=nope").says(404, &["no scenario is named"]);
    server.post("/run", "scenario=fact7-classic&states=0").says(400, &["at least 1"]);
    server
        .post("/run", "scenario=fact7-classic&states=99999999999")
        .says(400, &["more than this page searches"]);
}

#[test]
fn only_this_machine_is_answered_and_only_this_page_starts_anything() {
    let server = Server::start();
    server.say("GET / HTTP/1.1\r\nHost: evil.example", "").says(403, &["only for 127.0.0.1"]);
    let host = &server.address;
    let foreign = format!("POST /run HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.example");
    server.say(&foreign, "scenario=fact7-classic").says(403, &[]);
    let own = format!("POST /run HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}");
    server.say(&own, "scenario=fact7-classic").says(303, &[]);
}

#[test]
fn a_search_tells_how_far_it_is_and_what_it_found() {
    let server = Server::start();
    assert_eq!(server.progress()["running"], false);
    server.post("/run", "scenario=fact7-classic").says(303, &[]);
    let end = server.wait_for_the_run();
    assert_eq!(end["ended"], serde_json::Value::Null);
    assert_eq!(end["outcome"]["ok"], true, "{end}");
    assert_eq!(end["states"], end["outcome"]["expected_states"]);
    server.get("/run").says(200, &["as expected", "complete"]);
    server.get("/").says(200, &["found as expected in this session"]);
}

#[test]
fn a_search_ends_at_its_bounds_or_when_it_is_cancelled_and_is_the_only_one() {
    let server = Server::start();
    server.post("/run", "scenario=v2-five-nodes&states=20000&seconds=60").says(303, &[]);
    let end = server.wait_for_the_run();
    assert_eq!(end["ended"], "as many states as allowed");
    server.get("/run").says(200, &["not searched to the end"]);
    server.post("/run", "scenario=v2-five-nodes").says(303, &[]);
    server.post("/run", "scenario=fact7-classic").says(409, &["one search at a time"]);
    server.get("/run").says(200, &["Cancel"]);
    server.get("/path/fact7-classic?steps=0").says(200, &["step 1 of 1"]);
    server.post("/run/cancel", "").says(303, &[]);
    assert_eq!(server.wait_for_the_run()["ended"], "cancelled");
}

#[test]
fn a_picture_waits_for_a_search_with_other_edits_of_the_protocol() {
    const PICTURE: &str = "/trace/f3-no-write-back/token-order/svg";
    let server = Server::start();
    server.get(PICTURE).says(200, &["</svg>"]);
    server.post("/run", "scenario=v2-five-nodes").says(303, &[]);
    std::thread::scope(|scope| {
        let picture = scope.spawn(|| server.get(PICTURE));
        // Longer than a page waits for its turn.
        for _ in 0..40 {
            assert_eq!(server.progress()["running"], true, "the search must outlast the wait");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(!picture.is_finished(), "answered while another edit was searched");
        server.get("/path/f3-no-write-back?steps=0").says(503, &["One moment", "http-equiv=\"refresh\""]);
        server.post("/run/cancel", "").says(303, &[]);
        picture.join().expect("no panic").says(200, &["</svg>"]);
    });
}

#[test]
fn a_scenario_can_be_changed_and_what_is_found_can_be_stepped_through() {
    let server = Server::start();
    server.post("/run", "scenario=fact7-classic&empty-restart=1&pause=&margin=1&seconds=10").says(303, &[]);
    let end = server.wait_for_the_run();
    assert_eq!(end["scenario"], "fact7-classic~empty-restart=1", "{end}");
    let found = end["outcome"]["properties"].as_array().expect("a list");
    let belief = found.iter().find(|property| property["name"] == "belief").expect("belief");
    assert_eq!(
        (&belief["found"], &belief["steps"]),
        (&serde_json::json!("violated"), &serde_json::json!(11))
    );
    server.get("/run").says(200, &["A changed scenario", "/trace/fact7-classic~empty-restart=1/belief"]);
    let trace = server.get_found("/trace/fact7-classic~empty-restart=1/belief");
    trace.says(200, &["step 11 of 11", "WIPE"]);
    server.get("/path/fact7-classic~margin=3").says(400, &["margin", "at most 2"]);
    server.get("/path/fact7-classic~sunshine=1").says(400, &["sunshine"]);
    server.get("/path/fact7-classic~pause=many").says(400, &["not a number"]);
    server.get("/path/fact3-tokens~margin=1").says(400, &["no clocks"]);
    server.get("/path/nothing~pause=1").says(404, &["no scenario is named"]);
}

#[test]
fn a_taken_port_is_said_clearly() {
    let server = Server::start();
    let port = server.address.rsplit(':').next().expect("a port");
    for args in [vec!["serve", "--port", port], vec!["--port", port]] {
        let second = Command::new(env!("CARGO_BIN_EXE_explore")).args(args).output().expect("explore runs");
        assert_eq!(second.status.code(), Some(1));
        let text = String::from_utf8_lossy(&second.stderr);
        assert!(text.contains(&format!("port {port} of 127.0.0.1 is taken")), "{text}");
    }
}

#[test]
fn traces_from_files_have_pages_of_their_own() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/counterexamples");
    let file = |name: &str| format!("{folder}/{name}.json");
    let (first, second) = (file("s3-empty-restart-belief"), file("s10-pause-after-check-damage"));
    let server = Server::with(&["--trace", &first, &second]);
    server.get("/file/1").says(200, &["step 11 of 11", "WIPE 0", "belief violated", "<svg", &second]);
    server.get("/file/2?at=8").says(200, &["step 8 of 21", "A PAUSES", "href=\"/file/2?at=9\""]);
    server.get("/file/2?at=22").says(404, &["21 steps"]);
    server.get("/file/3").says(404, &["2 were given", "/file/1"]);
    server.get("/file/x").says(400, &[]);
    Server::start().get("/file/1").says(404, &["--trace FILE"]);
}
