//! Whole clusters in virtual time: several clients, reference nodes, and a network that loses, delays and reorders.
//!
//! All clocks are honest, so that nobody else can hold what one believes to hold. Chance comes from a tape of bytes which proptest
//! writes, shortens and replays.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use redfence::proto::node::{NodeState, execute};
use redfence::proto::retry::Backoff;
use redfence::proto::session::{AutoExtend, Config, Event, Mode};
use redfence::proto::{Drift, Input, NodeId, Output, Owner, Quorum, Reply, Request, Round, Timestamp, Ttl};

use super::rules::Watched;

const TTL: u64 = 40;
/// How long a host waits for one answer.
const PATIENCE: u64 = 12;
/// What is not there after this never comes.
const LATEST: u64 = 30;
/// Until then clients begin new attempts.
const BUSY: u64 = 600;

/// Bytes, over and over.
struct Tape {
    bytes: Vec<u8>,
    at: usize,
}

impl Tape {
    fn below(&mut self, bound: u64) -> u64 {
        let byte = self.bytes.get(self.at % self.bytes.len().max(1)).copied().unwrap_or(0);
        // A tape read for the second time says something else.
        let lap = self.at / self.bytes.len().max(1);
        self.at += 1;
        (u64::from(byte) + 7 * lap as u64) % bound.max(1)
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

#[derive(Clone, Copy, Debug)]
struct Weather {
    nodes: usize,
    clients: usize,
    mode: Mode,
    loss_percent: u64,
    late_percent: u64,
    wipes: bool,
    extend: bool,
}

/// One request to one node; the number is its own.
#[derive(Clone, Copy, PartialEq)]
struct Question {
    number: u64,
    round: Round,
    request: Request,
}

enum Due {
    /// A request is read by its node; the answer then sets out.
    AtNode {
        session: usize,
        node: usize,
        question: Question,
        answer_lost: bool,
    },
    AtHost {
        session: usize,
        node: usize,
        question: Question,
        reply: Reply,
    },
    /// The host waits no longer for this answer.
    Unheard {
        session: usize,
        node: usize,
        question: Question,
    },
    /// The holder has done its work.
    Work {
        session: usize,
    },
    Begin {
        client: usize,
    },
    Wipe {
        node: usize,
    },
}

/// What a host keeps beside a session.
struct Life {
    watched: Watched,
    client: usize,
    /// Questions to each node: at most the first is on its way.
    lanes: Vec<VecDeque<Question>>,
    /// Nodes of which not every question was answered at its time.
    unheard: Vec<bool>,
    begun_next: bool,
}

struct World {
    weather: Weather,
    tape: Tape,
    now: u64,
    nodes: Vec<NodeState>,
    lives: Vec<Life>,
    best: Vec<u64>,
    due: Vec<(u64, Due)>,
    questions: u64,
    tokens: Vec<u64>,
    wins: usize,
}

impl World {
    fn new(weather: Weather, tape: Vec<u8>) -> Self {
        let mut tape = Tape { bytes: tape, at: 0 };
        let nodes = (0..weather.nodes).map(|_| NodeState::member(1, tape.below(4))).collect();
        let mut world = Self {
            weather,
            tape,
            now: 0,
            nodes,
            lives: Vec::new(),
            best: vec![0; weather.clients],
            due: Vec::new(),
            questions: 0,
            tokens: Vec::new(),
            wins: 0,
        };
        for client in 0..weather.clients {
            let at = world.tape.below(5);
            world.due.push((at, Due::Begin { client }));
        }
        if weather.wipes {
            let at = world.tape.below(BUSY);
            let node = usize::try_from(world.tape.below(16)).unwrap_or(0) % weather.nodes;
            world.due.push((at, Due::Wipe { node }));
        }
        world
    }

    fn config(&self) -> Config {
        Config {
            quorum: Quorum::of(self.weather.nodes),
            mode: self.weather.mode,
            ttl: Ttl::from_millis(TTL).unwrap_or(Ttl::MAX),
            drift: Drift::default(),
            patience: Duration::from_millis(PATIENCE),
            extend: self.weather.extend.then_some(AutoExtend {
                every: Duration::from_millis(15),
                max_hold: Duration::from_millis(90),
            }),
            release_backoff: Backoff { first: Duration::from_millis(4), most: Duration::from_millis(16) },
            release_rounds: 4,
        }
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    /// Runs until nothing is on its way and every session has ended.
    fn run(&mut self) {
        while let Some(at) = self.next() {
            assert!(at < 20 * BUSY, "it does not come to an end");
            self.pass(at);
            while let Some(index) = self.due.iter().position(|(when, _)| *when <= at) {
                let (_, due) = self.due.remove(index);
                self.does(due);
                self.check();
            }
            for session in 0..self.lives.len() {
                if self.wake_at(session).is_some_and(|when| when <= at) {
                    self.tell(session, Input::Wake);
                    self.check();
                }
            }
        }
    }

    fn next(&self) -> Option<u64> {
        let wakes = (0..self.lives.len()).filter_map(|session| self.wake_at(session));
        self.due.iter().map(|(at, _)| *at).chain(wakes).min().map(|at| at.max(self.now))
    }

    /// In whole milliseconds: a host may be late, never early.
    fn wake_at(&self, session: usize) -> Option<u64> {
        let watched = &self.lives[session].watched;
        watched.session.poll_timeout(&watched.config).map(|at| at.as_micros().div_ceil(1_000))
    }

    fn pass(&mut self, to: u64) {
        let millis = to - self.now;
        self.nodes.iter_mut().for_each(|node| node.advance(millis));
        self.now = to;
    }

    fn does(&mut self, due: Due) {
        match due {
            Due::Begin { client } => self.begin(client),
            Due::AtNode { session, node, question, answer_lost } => {
                let reply = execute(&mut self.nodes[node], question.request).unwrap_or(Reply::Refused);
                let at = self.now + self.tape.below(4);
                if !answer_lost {
                    self.due.push((at, Due::AtHost { session, node, question, reply }));
                }
            }
            Due::AtHost { session, node, question, reply } => {
                let lane = &mut self.lives[session].lanes[node];
                let awaited = lane.front() == Some(&question);
                if awaited {
                    lane.pop_front();
                }
                self.tell(session, Input::Reply { node: NodeId::new(node), round: question.round, reply });
                if awaited {
                    self.ask(session, node);
                }
            }
            Due::Unheard { session, node, question } => {
                let life = &mut self.lives[session];
                if life.lanes[node].front() != Some(&question) {
                    return;
                }
                life.lanes[node].pop_front();
                life.unheard[node] = true;
                let (node_id, round) = (NodeId::new(node), question.round);
                self.tell(session, Input::Reply { node: node_id, round, reply: Reply::Unknown });
                self.ask(session, node);
            }
            Due::Work { session } => self.tell(session, Input::Release),
            Due::Wipe { node } => self.nodes[node].wipe(),
        }
    }

    fn begin(&mut self, client: usize) {
        let owner = Owner(self.lives.len() as u128 + 1);
        let watched = Watched::start(self.config(), owner, self.best[client] + 1, self.time());
        let first: Vec<_> = watched.outputs.iter().map(|(_, output)| *output).collect();
        let nodes = self.weather.nodes;
        let lanes = (0..nodes).map(|_| VecDeque::new()).collect();
        self.lives.push(Life { watched, client, lanes, unheard: vec![false; nodes], begun_next: false });
        self.follow(self.lives.len() - 1, first);
    }

    fn tell(&mut self, session: usize, input: Input) {
        let now = self.time();
        let outputs = self.lives[session].watched.handle(now, input);
        self.follow(session, outputs);
    }

    fn follow(&mut self, session: usize, outputs: Vec<Output>) {
        let client = self.lives[session].client;
        self.best[client] = self.best[client].max(self.lives[session].watched.session.best());
        for output in outputs {
            match output {
                Output::Send { to, round, request } => {
                    for node in to.iter().map(NodeId::index) {
                        self.questions += 1;
                        let lane = &mut self.lives[session].lanes[node];
                        lane.push_back(Question { number: self.questions, round, request });
                        if lane.len() == 1 {
                            self.ask(session, node);
                        }
                    }
                }
                Output::Event(event) => self.hear(session, event),
            }
        }
    }

    /// Sets the lane's first question on its way.
    fn ask(&mut self, session: usize, node: usize) {
        let Some(&question) = self.lives[session].lanes[node].front() else { return };
        let Weather { loss_percent, late_percent, .. } = self.weather;
        self.due.push((self.now + PATIENCE, Due::Unheard { session, node, question }));
        if self.tape.percent(loss_percent) {
            return;
        }
        let late = self.tape.percent(late_percent);
        let at = self.now + if late { self.tape.below(LATEST) } else { self.tape.below(3) };
        let answer_lost = self.tape.percent(loss_percent);
        self.due.push((at, Due::AtNode { session, node, question, answer_lost }));
    }

    fn hear(&mut self, session: usize, event: Event) {
        match event {
            Event::Acquired { token, .. } => {
                self.wins += 1;
                if let Some(token) = token {
                    let largest = self.tokens.iter().copied().max().unwrap_or(0);
                    assert!(token.0 > largest, "token {token} after {:?}", self.tokens);
                    self.tokens.push(token.0);
                }
                let at = self.now + self.tape.below(TTL * 2);
                self.due.push((at, Due::Work { session }));
                if self.tape.percent(30) {
                    let ttl = Ttl::from_millis(TTL + self.tape.below(TTL)).unwrap_or(Ttl::MAX);
                    let now = self.time();
                    let outputs = self.lives[session].watched.handle(now, Input::Extend { ttl });
                    self.follow(session, outputs);
                }
            }
            Event::Failed(_) | Event::Released(_) => {
                let life = &mut self.lives[session];
                let client = life.client;
                if !std::mem::replace(&mut life.begun_next, true) && self.now < BUSY {
                    let at = self.now + 1 + self.tape.below(20);
                    self.due.push((at, Due::Begin { client }));
                }
            }
            Event::Extended { .. } | Event::NotExtended { .. } | Event::Lost(_) => {}
        }
    }

    /// At every moment: at most one believes.
    fn check(&self) {
        let now = self.time();
        let believes = |life: &&Life| life.watched.session.held().is_some_and(|(_, until)| now < until);
        let believers: Vec<_> = self.lives.iter().filter(believes).collect();
        assert!(believers.len() <= 1, "at {now} {} sessions believe", believers.len());
    }

    /// At the end: no key is left at a node whose every answer came in time.
    fn check_left_behind(&self) {
        for life in &self.lives {
            let session = &life.watched.session;
            assert!(session.is_done(), "{session:?}");
            for (node, state) in self.nodes.iter().enumerate() {
                let left = state.lock.is_some_and(|(owner, _)| owner == session.owner());
                assert!(!left || life.unheard[node], "{} left behind at {node}", session.owner());
            }
        }
    }
}

prop_compose! {
    fn weathers()(
        nodes in 1usize..=5,
        clients in 1usize..=3,
        classic in prop::bool::weighted(0.2),
        loss_percent in prop_oneof![Just(0u64), Just(5), Just(25)],
        late_percent in prop_oneof![Just(0u64), Just(10), Just(50)],
        wipes in prop::bool::weighted(0.3),
        extend in any::<bool>(),
    ) -> Weather {
        // A wiped node votes again in classic mode, which is why two may believe there.
        let wipes = wipes && !classic;
        let mode = if classic { Mode::Classic } else { Mode::Fenced };
        Weather { nodes, clients, mode, loss_percent, late_percent, wipes, extend }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn one_believes_tokens_grow_and_nothing_is_left_behind(
        weather in weathers(),
        tape in prop::collection::vec(any::<u8>(), 1..400),
    ) {
        let mut world = World::new(weather, tape);
        world.run();
        world.check_left_behind();
    }
}

#[test]
fn in_fair_weather_every_client_gets_the_lock_again_and_again() {
    for nodes in 1..=5 {
        let weather = Weather {
            nodes,
            clients: 3,
            mode: Mode::Fenced,
            loss_percent: 0,
            late_percent: 0,
            wipes: false,
            extend: true,
        };
        let mut world = World::new(weather, (0..=255).map(|byte: u8| byte.wrapping_mul(37)).collect());
        world.run();
        world.check_left_behind();
        let won = |client| {
            let life = |life: &&Life| life.client == client && !life.watched.events().is_empty();
            let acquired = |life: &&Life| matches!(life.watched.events()[0], Event::Acquired { .. });
            world.lives.iter().filter(life).filter(acquired).count()
        };
        assert!((0..3).all(|client| won(client) >= 2), "with {nodes} nodes {} wins", world.wins);
    }
}
