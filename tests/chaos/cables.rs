//! Partitions by the kernel itself: every node in a network namespace of its own, on a cable of its own, which is pulled.
//!
//! All of it happens in a namespace that ends with the test: nothing of this machine's network is touched. What the proxy cannot
//! show is here: connections that survive, with packets sent again when the cable is back.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fastrand::Rng;
use redfence::simulate::Strategy;

use crate::nodes::{expect_standstill, minority, some};
use crate::run::{NODES, Plan, Run, ms};
use crate::support::{
    Live, Mortal, memory_folder, redis_binary, remove_at_the_end, require_redis, wait_until,
};
use crate::table;

/// The environment of the process that has the stage: this binary once more, in a namespace of its own.
const STAGE: &str = "REDFENCE_CHAOS_STAGE";

const FAULT: &str = "cables_pulled";

pub(crate) fn tests() -> Vec<Live> {
    vec![Live::sync("fenced::cables_pulled", cables_pulled).where_possible(require_namespaces)]
}

fn require_namespaces() -> Result<(), String> {
    require_redis()?;
    let script = "ip link set lo up && ip link add name here type veth peer name there && unshare -n true";
    let tried = Command::new("unshare").args(["-n", "sh", "-c", script]).output();
    match tried {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            Err(format!("no network namespaces here: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
        Err(error) => Err(format!("no network namespaces here: unshare cannot be run ({error})")),
    }
}

/// Starts the stage, and takes over what it found.
fn cables_pulled() {
    let this = std::env::current_exe().expect("a path");
    let mut command = Command::new("unshare");
    command.arg("-n").arg(this).env(STAGE, "1").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut stage = Mortal::spawn(&mut command).expect("unshare starts");
    let output = BufReader::new(stage.child().stdout.take().expect("piped"));
    let row = output.lines().map_while(Result::ok).find_map(|line| serde_json::from_str(&line).ok());
    assert!(stage.child().wait().expect("our own child").success(), "see above");
    table::add(row.expect("the stage tells what it found"));
}

/// Runs the experiment in the namespace, if this is the process for it, and does not return then.
pub(crate) fn play() {
    if std::env::var_os(STAGE).is_none() {
        return;
    }
    let tell = |row: &table::Row| println!("{}", serde_json::to_string(row).expect("plain values"));
    tell(&on_stage());
    std::process::exit(0);
}

fn on_stage() -> table::Row {
    ip("link set lo up");
    let folder = tempfile::tempdir_in(memory_folder()).expect("a temporary folder");
    remove_at_the_end(folder.path());
    let nodes: Vec<_> = (0..NODES).map(|node| Node::start(node, folder.path())).collect();
    nodes.iter().for_each(Node::wait_until_it_answers);
    let run = Run::at(Plan::new(FAULT, Strategy::Fenced), nodes.iter().map(Node::url).collect());
    let mut dice = Rng::with_seed(7);
    let strikes = 3;
    for number in 0..strikes {
        run.wait_for_share(number + 1, strikes + 2);
        let few = minority(&mut dice);
        few.iter().for_each(|&node| pull(node));
        run.count("cables of a minority pulled", few.len() as u64);
        run.expect_progress(20);
        few.iter().for_each(|&node| plug(node));
        let many = some(&mut dice, 3);
        many.iter().for_each(|&node| pull(node));
        run.count("cables of a majority pulled", 1);
        expect_standstill(&run);
        many.iter().for_each(|&node| plug(node));
        run.expect_progress(5);
    }
    let end = run.finish();
    end.assert_injected("cables of a minority pulled", strikes);
    end.assert_injected("cables of a majority pulled", strikes);
    end.assert_exact();
    end.assert_without("belief");
    end.row
}

/// A node at the other end of a cable.
struct Node {
    number: usize,
    _process: Mortal,
}

impl Node {
    fn start(number: usize, folder: &std::path::Path) -> Self {
        let data = folder.join(number.to_string());
        std::fs::create_dir(&data).expect("a folder for the data");
        let script = format!(
            "echo there; read cable; ip addr add {}/24 dev n{number}; ip link set n{number} up; exec {} --port 7000 \
             --bind {} --protected-mode no --save '' --appendonly yes --appendfsync always --dir {}",
            address(number),
            redis_binary().display(),
            address(number),
            data.display()
        );
        let mut command = Command::new("unshare");
        command.args(["-n", "sh", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Mortal::spawn(&mut command).expect("unshare starts");
        wait_for_line(process.child());
        let pid = process.id();
        ip(&format!("link add name c{number} type veth peer name n{number} netns {pid}"));
        ip(&format!("addr add 10.77.{number}.1/24 dev c{number}"));
        plug(number);
        let stdin = process.child().stdin.as_mut().expect("piped");
        writeln!(stdin, "the cable").expect("it reads");
        Self { number, _process: process }
    }

    fn url(&self) -> String {
        format!("redis://{}:7000", address(self.number))
    }

    fn wait_until_it_answers(&self) {
        let client = redis::Client::open(self.url()).expect("a URL");
        wait_until(Duration::from_secs(20), || {
            let connection = client.get_connection_with_timeout(ms(500));
            connection.is_ok_and(|mut connection| redis::cmd("PING").query::<String>(&mut connection).is_ok())
        });
    }
}

/// The process is in its own namespace when it has said so. The rest of its output is nobody's business.
fn wait_for_line(child: &mut Child) {
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("it speaks");
    assert_eq!(line, "there\n");
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
}

fn address(number: usize) -> String {
    format!("10.77.{number}.2")
}

fn pull(node: usize) {
    ip(&format!("link set c{node} down"));
}

fn plug(node: usize) {
    ip(&format!("link set c{node} up"));
}

fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).output().expect("ip runs");
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}
