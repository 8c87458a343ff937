//! What a history plays in: sessions, and if it wants them nodes and the messages between.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use redfence::proto::message::Stand;
use redfence::proto::node::{NodeState, execute};
use redfence::proto::retry::Backoff;
use redfence::proto::session::{AutoExtend, Config, Mode};
use redfence::proto::{
    Drift, Input, NodeId, Output, Owner, Quorum, Reply, Request, Round, Session, Timestamp, Ttl,
};

/// What a line led to, or why it is no line of this language.
type Lines = Result<Vec<String>, String>;

/// One history's world. A session is named by a capital letter, and is `A` if none is named.
#[derive(Default)]
pub(crate) struct World {
    now: Timestamp,
    clients: BTreeMap<char, Client>,
    nodes: Vec<NodeState>,
    requests: BTreeMap<(char, usize), Vec<(Round, Request)>>,
    answers: BTreeMap<(usize, char), Vec<(Round, Reply)>>,
}

struct Client {
    config: Config,
    session: Session,
    /// Questions to each node that have neither an answer nor been given up.
    open: BTreeMap<usize, Vec<Round>>,
}

impl World {
    /// Does one input line.
    pub(crate) fn line(&mut self, line: &str) -> Lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, words) = match words.split_first() {
            Some((first, rest)) if is_name(first) && !rest.is_empty() => (first.chars().next(), rest),
            _ => (None, &words[..]),
        };
        let name = name.unwrap_or('A');
        let Some((verb, rest)) = words.split_first() else { return Err("an empty line".into()) };
        match (*verb, rest) {
            ("nodes", numbers) => self.make_nodes(numbers),
            ("start", options) => self.start(name, options),
            ("reply", [node, answer @ ..]) => {
                let (round, reply) = parse_answer(answer)?;
                let node = NodeId::new(parse(node)?);
                self.input(name, Input::Reply { node, round, reply })
            }
            ("wake", [at]) => {
                self.pass(span(at)?)?;
                self.input(name, Input::Wake)
            }
            ("wake", []) => self.wake_in_time(name),
            ("extend", [ttl]) => self.input(name, Input::Extend { ttl: parse_ttl(ttl)? }),
            ("release", []) => self.input(name, Input::Release),
            ("at", [at]) => self.pass(span(at)?).map(|()| Vec::new()),
            ("timer", []) => Ok(vec![self.timer(name)?.map_or("none".into(), |at| at.to_string())]),
            ("trip", [route]) => self.along(route, |world, client, node| {
                let mut lines = world.deliver_request(client, node)?;
                lines.extend(world.deliver_answer(node, client)?);
                Ok(lines)
            }),
            ("deliver", [route]) if route.starts_with(|c: char| c.is_ascii_digit()) => {
                self.along(&reversed(route)?, |world, client, node| world.deliver_answer(node, client))
            }
            ("deliver", [route]) => self.along(route, Self::deliver_request),
            ("lose", [route]) if route.starts_with(|c: char| c.is_ascii_digit()) => self
                .along(&reversed(route)?, |world, client, node| {
                    take_first(world.answers.get_mut(&(node, client))).map(|_| Vec::new())
                }),
            ("lose", [route]) => self.along(route, |world, client, node| {
                take_first(world.requests.get_mut(&(client, node))).map(|_| Vec::new())
            }),
            ("overtake", [route]) if route.starts_with(|c: char| c.is_ascii_digit()) => self
                .along(&reversed(route)?, |world, client, node| {
                    last_first(world.answers.get_mut(&(node, client)))
                }),
            ("overtake", [route]) => {
                self.along(route, |world, client, node| last_first(world.requests.get_mut(&(client, node))))
            }
            ("timeout", [route]) => self.along(route, Self::give_up_waiting),
            ("expire", [node]) => self.at_node(node, NodeState::expire),
            ("wipe", [node]) => self.at_node(node, NodeState::wipe),
            ("admit", [node, options @ ..]) => self.admit(node, options),
            ("node", [node]) => self.at_node(node, |_| {}),
            _ => Err(format!("`{line}` is no line of this language")),
        }
    }

    /// `nodes 2 0 empty`: three nodes; a number is where the counter stands, all in epoch 1.
    fn make_nodes(&mut self, numbers: &[&str]) -> Lines {
        let node = |word: &&str| match *word {
            "empty" => Ok(NodeState::default()),
            number => parse(number).map(|floor| NodeState::member(1, floor)),
        };
        self.nodes = numbers.iter().map(node).collect::<Result<_, _>>()?;
        Ok(Vec::new())
    }

    /// `start ttl=10s nodes=3 hint=0 mode=classic patience=2s every=3s max-hold=1m rounds=3`; all but `ttl` may be left out.
    fn start(&mut self, name: char, options: &[&str]) -> Lines {
        let mut options = Options::of(options)?;
        let nodes = options.take("nodes", parse::<usize>)?;
        let nodes = nodes.unwrap_or(if self.nodes.is_empty() { 3 } else { self.nodes.len() });
        let mode = options.take("mode", |word| match word {
            "classic" => Ok(Mode::Classic),
            "fenced" => Ok(Mode::Fenced),
            _ => Err(format!("`{word}` is no mode")),
        })?;
        let ttl = options.take("ttl", parse_ttl)?.ok_or("a start needs ttl=")?;
        let every = options.take("every", span)?;
        let max_hold = options.take("max-hold", span)?;
        let extend = match (every, max_hold) {
            (None, None) => None,
            (every, max_hold) => Some(AutoExtend {
                every: every.unwrap_or(ttl.as_duration()),
                max_hold: max_hold.unwrap_or(Duration::MAX),
            }),
        };
        let config = Config {
            quorum: Quorum::of(nodes),
            mode: mode.unwrap_or_default(),
            ttl,
            drift: Drift::default(),
            patience: options.take("patience", span)?.unwrap_or(Duration::from_secs(2)),
            extend,
            release_backoff: Backoff { first: Duration::from_millis(100), most: Duration::from_secs(1) },
            release_rounds: options.take("rounds", parse)?.unwrap_or(3),
        };
        let hint = options.take("hint", parse)?.unwrap_or(0);
        options.end()?;
        let mut outputs = Vec::new();
        let session = Session::new(&config, owner(name), hint, self.now, &mut outputs);
        self.clients.insert(name, Client { config, session, open: BTreeMap::new() });
        Ok(self.carry_out(name, &outputs))
    }

    fn input(&mut self, name: char, input: Input) -> Lines {
        let client = self.clients.get_mut(&name).ok_or_else(|| format!("{name} has not started"))?;
        let done = client.session.is_done();
        let mut outputs = Vec::new();
        client.session.handle(&client.config, self.now, input, &mut outputs);
        let ended = !done && client.session.is_done();
        let mut lines = self.carry_out(name, &outputs);
        if ended {
            lines.push(self.said_by(name, "done"));
        }
        Ok(lines)
    }

    fn timer(&self, name: char) -> Result<Option<Timestamp>, String> {
        let client = self.clients.get(&name).ok_or_else(|| format!("{name} has not started"))?;
        Ok(client.session.poll_timeout(&client.config))
    }

    /// Lets time go on to the moment the session has asked for.
    fn wake_in_time(&mut self, name: char) -> Lines {
        let Some(at) = self.timer(name)? else { return Ok(vec![self.said_by(name, "waits for nothing")]) };
        self.pass(at.since(Timestamp::ORIGIN))?;
        let mut lines = vec![format!("at {at}")];
        lines.extend(self.input(name, Input::Wake)?);
        Ok(lines)
    }

    fn pass(&mut self, since_origin: Duration) -> Result<(), String> {
        let to = Timestamp::ORIGIN + since_origin;
        if to < self.now {
            return Err(format!("{to} is over, it is {}", self.now));
        }
        let millis = to.as_micros() / 1_000 - self.now.as_micros() / 1_000;
        self.nodes.iter_mut().for_each(|node| node.advance(millis));
        self.now = to;
        Ok(())
    }

    /// Puts what is to be sent on its way, and writes everything down.
    fn carry_out(&mut self, name: char, outputs: &[Output]) -> Vec<String> {
        for output in outputs {
            let Output::Send { to, round, request } = *output else { continue };
            for node in to.iter().map(NodeId::index).filter(|&node| node < self.nodes.len()) {
                self.requests.entry((name, node)).or_default().push((round, request));
                let client = self.clients.get_mut(&name);
                client.into_iter().for_each(|client| client.open.entry(node).or_default().push(round));
            }
        }
        outputs.iter().map(|output| self.said_by(name, &output.to_string())).collect()
    }

    /// Where there are nodes, each line says who speaks.
    fn said_by(&self, name: char, text: &str) -> String {
        if self.nodes.is_empty() { text.to_owned() } else { format!("{name} {text}") }
    }

    /// `A->0,1`: does something for each of these nodes in turn.
    fn along(&mut self, route: &str, step: impl Fn(&mut Self, char, usize) -> Lines) -> Lines {
        let (client, nodes) = route.split_once("->").ok_or_else(|| format!("`{route}` is no route"))?;
        let client = client.chars().next().filter(|_| is_name(client)).ok_or("a route needs a session")?;
        let mut lines = Vec::new();
        for node in nodes.split(',') {
            lines.extend(step(self, client, parse(node)?)?);
        }
        Ok(lines)
    }

    /// The oldest request on its way reaches the node.
    fn deliver_request(&mut self, client: char, node: usize) -> Lines {
        let (round, request) = take_first(self.requests.get_mut(&(client, node)))?;
        let state = self.nodes.get_mut(node).ok_or_else(|| format!("there is no node {node}"))?;
        let (reply, text) = match execute(state, request) {
            Ok(reply) => (reply, reply.to_string()),
            Err(obstacle) => (Reply::Refused, format!("refused: {obstacle}")),
        };
        self.answers.entry((node, client)).or_default().push((round, reply));
        Ok(vec![format!("{node} {request}: {text}")])
    }

    /// The oldest answer on its way reaches the session.
    fn deliver_answer(&mut self, node: usize, name: char) -> Lines {
        let (round, reply) = take_first(self.answers.get_mut(&(node, name)))?;
        if let Some(open) = self.clients.get_mut(&name).and_then(|client| client.open.get_mut(&node)) {
            open.iter().position(|&asked| asked == round).map(|at| open.remove(at));
        }
        self.input(name, Input::Reply { node: NodeId::new(node), round, reply })
    }

    /// The host waits no longer for the oldest question to this node. What is on its way stays on its way.
    fn give_up_waiting(&mut self, name: char, node: usize) -> Lines {
        let client = self.clients.get_mut(&name).ok_or_else(|| format!("{name} has not started"))?;
        let round = take_first(client.open.get_mut(&node))?;
        self.input(name, Input::Reply { node: NodeId::new(node), round, reply: Reply::Unknown })
    }

    fn at_node(&mut self, node: &str, change: impl Fn(&mut NodeState)) -> Lines {
        let state =
            self.nodes.get_mut(parse::<usize>(node)?).ok_or_else(|| format!("there is no node {node}"))?;
        change(state);
        Ok(vec![format!("{node} {state}")])
    }

    /// What an operator does to an empty node: `admit 0 epoch=1 floor=7`.
    fn admit(&mut self, node: &str, options: &[&str]) -> Lines {
        let mut options = Options::of(options)?;
        let epoch = options.take("epoch", parse)?.ok_or("an admission needs epoch=")?;
        let floor = options.take("floor", parse)?.ok_or("an admission needs floor=")?;
        options.end()?;
        self.at_node(node, |state| {
            let _ = execute(state, Request::Init { epoch, floor });
        })
    }
}

fn is_name(word: &str) -> bool {
    word.len() == 1 && word.starts_with(|c: char| c.is_ascii_uppercase())
}

/// `A` signs its keys with `a1b2c3d4..`, the others with their letter.
fn owner(name: char) -> Owner {
    if name == 'A' {
        Owner(0xa1b2_c3d4 << 96)
    } else {
        Owner(u128::from(u32::from(name) - u32::from('A')) + 0xA)
    }
}

fn take_first<T>(queue: Option<&mut Vec<T>>) -> Result<T, String> {
    match queue {
        Some(queue) if !queue.is_empty() => Ok(queue.remove(0)),
        _ => Err("nothing is on its way there".into()),
    }
}

fn last_first<T>(queue: Option<&mut Vec<T>>) -> Lines {
    let queue = queue.filter(|queue| queue.len() > 1).ok_or("there is nothing to overtake")?;
    queue.rotate_right(1);
    Ok(Vec::new())
}

fn reversed(route: &str) -> Result<String, String> {
    let (nodes, client) = route.split_once("->").ok_or_else(|| format!("`{route}` is no route"))?;
    Ok(format!("{client}->{nodes}"))
}

fn parse<T: FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("`{word}` is not understood"))
}

/// `10s`, `250ms`, `1500us`.
fn span(word: &str) -> Result<Duration, String> {
    let unit = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let count = parse(&word[..unit])?;
    match &word[unit..] {
        "us" => Ok(Duration::from_micros(count)),
        "ms" => Ok(Duration::from_millis(count)),
        "s" => Ok(Duration::from_secs(count)),
        _ => Err(format!("`{word}` is no span of time")),
    }
}

fn parse_ttl(word: &str) -> Result<Ttl, String> {
    Ttl::from_duration(span(word)?).ok_or_else(|| format!("`{word}` is no TTL"))
}

/// `grant mine 1/1`, `extend 2 extended`, `release not mine`: the wording of `proto` read backwards.
fn parse_answer(words: &[&str]) -> Result<(Round, Reply), String> {
    let (round, reply) = match words {
        ["grant", reply @ ..] => (Round::Grant, reply),
        ["confirm", reply @ ..] => (Round::Confirm, reply),
        ["extend", round, reply @ ..] => (Round::Extend(parse(round)?), reply),
        ["release", reply @ ..] => (Round::Release, reply),
        _ => return Err(format!("`{}` is no answer", words.join(" "))),
    };
    let reply = match reply {
        ["mine"] => Reply::Mine(Stand::CLASSIC),
        ["mine", stand] => {
            let (number, epoch) = stand.split_once('/').ok_or_else(|| format!("`{stand}` is no stand"))?;
            Reply::Mine(Stand { number: parse(number)?, epoch: parse(epoch)? })
        }
        ["taken", number] => Reply::Taken { number: parse(number)? },
        ["not", "mine"] => Reply::NotMine,
        ["empty"] => Reply::Empty,
        ["extended"] => Reply::Extended,
        ["released"] => Reply::Released,
        ["refused"] => Reply::Refused,
        ["unknown"] => Reply::Unknown,
        _ => return Err(format!("`{}` is no reply", reply.join(" "))),
    };
    Ok((round, reply))
}

/// `key=value` words, each to be taken once.
struct Options<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Options<'a> {
    fn of(words: &[&'a str]) -> Result<Self, String> {
        let pair = |word: &&'a str| word.split_once('=').ok_or_else(|| format!("`{word}` is not key=value"));
        words.iter().map(pair).collect::<Result<_, _>>().map(Self)
    }

    fn take<T>(&mut self, key: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
        self.0.remove(key).map(read).transpose()
    }

    fn end(self) -> Result<(), String> {
        match self.0.keys().next() {
            Some(key) => Err(format!("`{key}` is no option here")),
            None => Ok(()),
        }
    }
}
