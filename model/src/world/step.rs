//! What an action does.

use std::cell::RefCell;

use redfence::invariants;
use redfence::proto::node::execute;
use redfence::proto::session::{Config, Event};
use redfence::proto::{FencingToken, Input, NodeId, Output, Reply, Round, Session};

use super::action::Action;
use super::hear::Hearing;
use super::link::{Answer, Ask, Packet, Slot, small};
use super::settings::{Economy, Fault, Guard, Hint, Owners, Rejoin, Settings, Time, Work};
use super::state::{App, Client, ETERNAL, Node, Pace, Signer, State};

/// A count that is never used up.
pub const UNLIMITED: u8 = u8::MAX;

/// More often than this no session has something to do at one moment.
const MOST_WAKES: usize = 6;

thread_local! {
    /// Outputs of the session at work: one list for all steps, so that a step allocates nothing.
    static OUTPUTS: RefCell<Vec<Output>> = const { RefCell::new(Vec::new()) };
}

/// Takes one step.
pub(super) struct Stepper<'a, const N: usize, const C: usize> {
    /// What the world is built from.
    pub(super) settings: &'a Settings,
    /// The same, as sessions know it.
    pub(super) config: &'a Config,
    /// The moment that is changed.
    pub(super) state: &'a mut State<N, C>,
}

impl<const N: usize, const C: usize> Stepper<'_, N, C> {
    /// Does it.
    pub(super) fn take(&mut self, action: Action) {
        match action {
            Action::Begin { client, hint, slow } => self.begin(client, hint, slow),
            Action::Execute { client, node, early } => self.execute(client, node, early),
            Action::ExecuteEnded { client, node } => {
                self.change(node, |node| node.expire());
                self.execute(client, node, 0);
            }
            Action::Lose { client, node } => {
                self.state.links[usize::from(client)][usize::from(node)].advance();
                self.settle(client);
            }
            Action::Refuse { client, node } => self.refuse(client, node),
            Action::Deliver { client, node } => self.deliver(client, node),
            Action::Hear { client, nodes, order } => {
                let index = usize::from(client);
                let hearing = Hearing::new(self.config, &self.state.clients[index], &self.state.links[index]);
                hearing.order(nodes, order).into_iter().for_each(|node| self.deliver(client, node));
            }
            Action::GiveUp { client, node } => self.give_up(client, node),
            Action::Late { client, node } => self.late(client, node),
            Action::Abandon(client) => {
                self.tell(client, Input::Release);
            }
            Action::Extend(client) => {
                self.spend(Fault::Extend);
                self.tell(client, Input::Extend { ttl: self.config.ttl });
            }
            Action::Read(client) => self.read(client),
            Action::Check(client) => self.state.clients[usize::from(client)].app = App::Checked,
            Action::Write(client) => self.write(client),
            Action::Delay(client) => {
                self.spend(Fault::Delay);
                self.state.clients[usize::from(client)].app = App::Sent;
            }
            Action::Arrive(client) => self.write(client),
            Action::Release(client) => self.release(client),
            Action::Expire(node) => self.change(node, |node| node.expire()),
            Action::Tick => self.tick(),
            Action::Jump(node) => {
                self.spend(Fault::Jump);
                self.change(node, |node| node.expire());
                self.state.nodes[usize::from(node)].silent = 0;
            }
            Action::JumpBack(node) => self.jump_back(node),
            Action::Evict(node) => {
                self.spend(Fault::Evict);
                self.change(node, |node| node.expire());
            }
            Action::Restart(node) => self.restart(node),
            Action::Wipe(node) => self.wipe(node),
            Action::Save(node) => {
                let at = usize::from(node);
                let now = self.state.nodes[at];
                if let Some(saved) = &mut self.state.saved {
                    saved[at] = now;
                }
            }
            Action::Rollback(node) => {
                self.spend(Fault::Rollback);
                let at = usize::from(node);
                if let Some(saved) = &self.state.saved {
                    self.state.nodes[at] = saved[at];
                }
            }
            Action::Pause(client) => {
                self.spend(Fault::Pause);
                self.state.clients[usize::from(client)].pace = Pace::Paused;
            }
            Action::Stop(client) => {
                self.spend(Fault::Stop);
                self.state.clients[usize::from(client)].pace = Pace::Stopped;
            }
            Action::Resume(client) => {
                self.state.clients[usize::from(client)].pace = Pace::Running;
                self.wake(client);
            }
            Action::OperatorBegins(operator) => self.state.operators[usize::from(operator)].begin(),
            Action::OperatorAsks { operator, node } => self.operate(operator, node),
            Action::OperatorAsksTwice { operator, node } => {
                self.spend(Fault::OperatorRepeat);
                self.state.operators[usize::from(operator)].repeat(usize::from(node));
                self.operate(operator, node);
            }
            Action::OperatorGivesUp { operator, node } => {
                self.spend(Fault::OperatorLoss);
                self.state.operators[usize::from(operator)].give_up(usize::from(node));
            }
            Action::OperatorLate { operator, node } => {
                let at = usize::from(node);
                if let Some(request) = self.state.operators[usize::from(operator)].take_stale(at) {
                    self.done_for_operator(at, request);
                }
            }
            Action::OperatorDies(operator) => {
                self.spend(Fault::OperatorCrash);
                self.state.operators[usize::from(operator)].die();
            }
            Action::Neighbour(node) => {
                self.spend(Fault::Neighbour);
                // Resources meet in the node record alone: its largest number, and through it the floor of re-admitted nodes.
                self.change(node, |node| node.record.high += 1);
            }
            Action::Repeat { client, node } => self.repeat(client, node),
            Action::Die(client) => self.die(client),
            Action::SetBack(client) => {
                self.spend(Fault::ClockBack);
                let ttl = small(self.config.ttl.as_millis()).cast_signed();
                self.state.clients[usize::from(client)].clock -= ttl;
            }
            Action::Arm(node) => {
                self.state.nodes[usize::from(node)].left = small(self.config.ttl.as_millis())
            }
        }
    }

    fn spend(&mut self, fault: Fault) {
        let left = &mut self.state.budget[fault as usize];
        if *left != UNLIMITED {
            *left -= 1;
        }
    }

    fn change(&mut self, node: u8, change: impl FnOnce(&mut redfence::proto::node::NodeState)) {
        self.state.nodes[usize::from(node)].with(self.settings.time, change);
    }

    fn begin(&mut self, id: u8, hint: u8, slow: u8) {
        let before = self.state.largest_token();
        let client = &mut self.state.clients[usize::from(id)];
        let seen = client.session.as_ref().map_or(0, |session| small(session.best()));
        client.best = client.best.max(seen);
        client.attempt += 1;
        client.clock = -slow.cast_signed();
        client.app = App::Waiting;
        client.token = 0;
        client.before = before;
        client.outdated = false;
        let owner = signer(self.settings, id, client.attempt).owner();
        let now = client.now();
        let mut outputs = OUTPUTS.take();
        client.session = Some(Session::new(self.config, owner, u64::from(hint), now, &mut outputs));
        self.obey(id, outputs);
        self.settle(id);
    }

    /// Tells a session something and does what it says.
    fn tell(&mut self, id: u8, input: Input) {
        let client = &mut self.state.clients[usize::from(id)];
        let now = client.now();
        let Some(session) = &mut client.session else { return };
        let mut outputs = OUTPUTS.take();
        session.handle(self.config, now, input, &mut outputs);
        self.obey(id, outputs);
        self.settle(id);
    }

    fn obey(&mut self, id: u8, mut outputs: Vec<Output>) {
        let mut lost = false;
        let attempt = self.state.clients[usize::from(id)].attempt;
        for output in outputs.drain(..) {
            match output {
                Output::Send { round: Round::Release, .. }
                    if self.settings.economy >= Economy::LoseReleases => {}
                Output::Send { to, round, request } => {
                    let packet = Packet::new(attempt, round, request);
                    for node in to.iter().take(N) {
                        self.state.links[usize::from(id)][node.index()].send(packet);
                    }
                }
                Output::Event(Event::Acquired { token, .. }) => self.won(id, token),
                Output::Event(Event::Failed(_)) => self.state.clients[usize::from(id)].app = App::Failed,
                Output::Event(Event::Lost(_)) => lost = true,
                Output::Event(Event::Extended { .. } | Event::NotExtended { .. } | Event::Released(_)) => {}
            }
        }
        OUTPUTS.set(outputs);
        if lost {
            self.release(id);
        }
    }

    fn won(&mut self, id: u8, token: Option<FencingToken>) {
        let issued = self.state.issued;
        let client = &mut self.state.clients[usize::from(id)];
        client.app = App::Holding;
        self.state.wrongs.hollow |= !client.believes();
        let Some(token) = token else { return };
        client.token = small(token.0);
        let before = (client.before > 0).then(|| FencingToken(u64::from(client.before)));
        let right = invariants::token_order(token, issued >> client.token & 1 == 1, before);
        self.state.wrongs.token |= right.is_err();
        if let Some(takeovers) = &mut self.state.takeovers {
            let who = Signer::new(id, client.attempt);
            self.state.wrongs.takeover |= !takeovers.won(who, client.token);
        }
        self.state.issued |= 1 << client.token;
    }

    /// The holder is done with the lock, or has lost it. A write under way goes on.
    fn release(&mut self, id: u8) {
        let app = &mut self.state.clients[usize::from(id)].app;
        if !matches!(app, App::Checked | App::Sent) {
            *app = App::Over;
        }
        self.tell(id, Input::Release);
    }

    /// Answers that nobody waits for are gone, and what waited behind them leaves.
    fn settle(&mut self, id: u8) {
        let index = usize::from(id);
        let client = &mut self.state.clients[index];
        let last = client.attempt == self.settings.attempts;
        let terse = self.settings.economy >= Economy::Terse;
        let done = match terse {
            true => client.app == App::Holding || client.is_idle(),
            false => client.is_idle() && last,
        };
        if done && self.settings.economy >= Economy::Leave {
            let seen = client.session.as_ref().map_or(0, |session| small(session.best()));
            let best = if last || self.settings.hint != Hint::Best { 0 } else { client.best.max(seen) };
            let Client { attempt, app, token, .. } = *client;
            *client = Client { attempt, app, token, best, ..Client::default() };
        }
        for at in 0..N {
            while let Slot::Answered(packet, _) = self.state.links[index][at].slot
                && !self.listens(index, packet.attempt)
            {
                self.state.links[index][at].advance();
            }
        }
        let client = &mut self.state.clients[index];
        if client.session.as_ref().is_some_and(Session::is_done) {
            client.clock = 0;
        }
        if terse {
            (0u8..).take(C).for_each(|id| self.forget_what_is_over(id));
        }
    }

    /// A confirm whose key is gone does nothing, and a key that no confirm will ask for is as good as gone.
    fn forget_what_is_over(&mut self, id: u8) {
        let index = usize::from(id);
        for at in 0..N {
            let meant = self.state.meant(index, at);
            let key = self.state.nodes[meant].signer;
            let Client { attempt, session, .. } = &self.state.clients[index];
            let (attempt, waits) = (*attempt, session.is_some());
            let link = &mut self.state.links[index][at];
            let idle = |packet: Packet| {
                packet.ask == Ask::Confirm
                    && !(waits && packet.attempt == attempt)
                    && key != signer(self.settings, id, packet.attempt)
            };
            while let Slot::Asked(packet) = link.slot
                && idle(packet)
            {
                link.advance();
            }
            if key.client().map(usize::from) != Some(index) {
                continue;
            }
            let own = |packet: &Packet| {
                packet.ask != Ask::Grant && key == signer(self.settings, id, packet.attempt)
            };
            let on_its_way = matches!(&link.slot, Slot::Asked(packet) if own(packet));
            let asked_for = on_its_way || link.waiting().iter().chain(&link.stale).any(own);
            if !(asked_for || waits && key == signer(self.settings, id, attempt)) {
                self.state.nodes[meant].with(self.settings.time, |node| node.expire());
            }
        }
    }

    fn listens(&self, index: usize, attempt: u8) -> bool {
        let client = &self.state.clients[index];
        // A holder that makes no further attempt and never extends learns nothing more from any answer.
        let content = client.attempt == self.settings.attempts
            && self.settings.faults.extend == 0
            && self.settings.economy >= Economy::Leave
            && client.session.as_ref().is_some_and(|session| session.held().is_some());
        match self.settings.owners {
            _ if content => false,
            Owners::PerAttempt => client.listens(attempt),
            Owners::PerClient => client.listens(client.attempt),
        }
    }

    fn execute(&mut self, id: u8, node: u8, early: u8) {
        let (index, at) = (usize::from(id), usize::from(node));
        let Slot::Asked(packet) = self.state.links[index][at].slot else { return };
        let reply = self.run(id, at, packet, early);
        let link = &mut self.state.links[index][at];
        link.slot = Slot::Answered(packet, Answer::new(reply));
        self.settle(id);
    }

    /// Does a request at a node.
    fn run(&mut self, id: u8, at: usize, packet: Packet, early: u8) -> Reply {
        let owner = signer(self.settings, id, packet.attempt).owner();
        let request = packet.request(owner, self.settings.mode, self.config.ttl);
        let at = self.state.meant(usize::from(id), at);
        let node = &mut self.state.nodes[at];
        let mut reference = node.reference();
        let before = reference.lock;
        let reply = execute(&mut reference, request).unwrap_or(Reply::Refused);
        let signed = |lock: Option<(redfence::proto::Owner, u64)>| lock.map(|(owner, _)| owner);
        let safe = invariants::release_safety(request, signed(before), signed(reference.lock));
        self.state.wrongs.release |= safe.is_err();
        node.take(&reference, self.settings.time);
        if let (Reply::Mine(_), Ask::Grant, Some(takeovers)) = (reply, packet.ask, &mut self.state.takeovers)
        {
            takeovers.granted(at, Signer::new(id, packet.attempt));
        }
        if matches!(reply, Reply::Mine(_) | Reply::Extended) && !matches!(packet.ask, Ask::Confirm) {
            node.left = node.left.saturating_sub(early).max(1);
            if self.settings.two_steps {
                node.left = ETERNAL;
            }
        }
        reply
    }

    fn operate(&mut self, operator: u8, node: u8) {
        let at = usize::from(node);
        let Some(request) = self.state.operators[usize::from(operator)].call(at) else { return };
        let reply = self.done_for_operator(at, request);
        self.state.operators[usize::from(operator)].hear(at, reply);
    }

    fn done_for_operator(&mut self, at: usize, request: redfence::proto::Request) -> Reply {
        let mut reference = self.state.nodes[at].reference();
        let reply = execute(&mut reference, request).unwrap_or(Reply::Refused);
        self.state.nodes[at].take(&reference, self.settings.time);
        reply
    }

    fn refuse(&mut self, id: u8, node: u8) {
        let link = &mut self.state.links[usize::from(id)][usize::from(node)];
        let Slot::Asked(packet) = link.slot else { return };
        link.slot = Slot::Answered(packet, Answer::Refused);
        self.settle(id);
    }

    fn deliver(&mut self, id: u8, node: u8) {
        let link = &mut self.state.links[usize::from(id)][usize::from(node)];
        let Slot::Answered(packet, answer) = link.slot else { return };
        link.advance();
        self.hear(id, node, packet, answer.reply());
    }

    fn hear(&mut self, id: u8, node: u8, packet: Packet, reply: Reply) {
        if self.listens(usize::from(id), packet.attempt) {
            let node = NodeId::new(usize::from(node));
            self.tell(id, Input::Reply { node, round: packet.round(), reply });
        }
    }

    fn give_up(&mut self, id: u8, node: u8) {
        self.spend(Fault::Loss);
        let link = &mut self.state.links[usize::from(id)][usize::from(node)];
        let packet = match link.slot {
            Slot::Idle => return,
            Slot::Answered(packet, _) => packet,
            Slot::Asked(packet) => {
                link.stale = Some(packet);
                packet
            }
        };
        link.advance();
        self.hear(id, node, packet, Reply::Unknown);
    }

    fn repeat(&mut self, id: u8, node: u8) {
        self.spend(Fault::Repeat);
        let link = &mut self.state.links[usize::from(id)][usize::from(node)];
        if let Slot::Answered(packet, _) = link.slot {
            link.stale = Some(packet);
        }
    }

    fn late(&mut self, id: u8, node: u8) {
        let at = usize::from(node);
        let terse = self.settings.economy >= Economy::Terse;
        if let Some(packet) = self.state.links[usize::from(id)][at].stale.take() {
            if terse && packet.ask == Ask::Grant {
                self.change(node, |node| node.expire());
            }
            self.run(id, at, packet, 0);
        }
        if terse {
            (0u8..).take(C).for_each(|id| self.forget_what_is_over(id));
        }
    }

    fn read(&mut self, id: u8) {
        let resource = &mut self.state.resource;
        let client = &mut self.state.clients[usize::from(id)];
        client.app = App::Read;
        if self.settings.work == Work::Update(Guard::Claim) {
            resource.mark = id + 1;
            resource.claimed = resource.claimed.max(client.token);
        }
        if self.settings.work == Work::Update(Guard::ReadsAndWrites) {
            if client.token < resource.mark {
                client.app = App::Fenced;
                return;
            }
            resource.mark = client.token;
        }
    }

    fn write(&mut self, id: u8) {
        let index = usize::from(id);
        let state = &mut *self.state;
        let client = &mut state.clients[index];
        let (fenced, claims) = match self.settings.work {
            Work::Update(Guard::Writes | Guard::ReadsAndWrites) => (true, false),
            Work::Update(Guard::Claim) => (false, true),
            Work::Update(Guard::Open) | Work::Nothing => (false, false),
        };
        let refused =
            (fenced && client.token < state.resource.mark) || (claims && state.resource.mark != id + 1);
        client.app = App::Wrote;
        if refused {
            client.app = App::Fenced;
        } else {
            state.wrongs.order |= claims && client.token < state.resource.claimed;
            if fenced {
                state.resource.mark = client.token;
            }
            let safe = invariants::no_lost_update(0, u64::from(client.outdated));
            state.wrongs.damage |= safe.is_err();
            for (other, client) in state.clients.iter_mut().enumerate() {
                client.outdated |=
                    other != index && matches!(client.app, App::Read | App::Checked | App::Sent);
            }
        }
        let client = &mut state.clients[index];
        client.outdated = false;
        if !refused && !client.holds() {
            client.app = App::Over;
        }
    }

    fn tick(&mut self) {
        let Time::Timed { ttl, margin, .. } = self.settings.time else { return };
        for node in self.state.nodes.iter_mut().chain(self.state.saved.iter_mut().flat_map(|s| s.iter_mut()))
        {
            node.silent = node.silent.saturating_sub(1);
            if node.signer.is_somebody() && node.left != ETERNAL {
                node.with(self.settings.time, |node| node.advance(1));
            }
        }
        // Past this no session waits for anything, however often it was extended.
        let last = (self.settings.faults.extend + 2) * ttl + 3 * margin;
        for (index, id) in (0..C).zip(0u8..) {
            let client = &mut self.state.clients[index];
            let counts = client.session.as_ref().is_some_and(|session| !session.is_done());
            if counts && client.pace != Pace::Stopped {
                client.clock = (client.clock + 1).min(last.cast_signed());
            }
            if client.pace == Pace::Running {
                self.wake(id);
            }
        }
    }

    /// Wakes a session as long as it wants to be woken.
    fn wake(&mut self, id: u8) {
        let due = |state: &State<N, C>, config: &Config| {
            let client = &state.clients[usize::from(id)];
            let at = client.session.as_ref().and_then(|session| session.poll_timeout(config));
            client.app != App::Dead && at.is_some_and(|at| at <= client.now())
        };
        // A session that is never content would keep its host busy for ever.
        for _ in 0..MOST_WAKES {
            if !due(self.state, self.config) {
                return;
            }
            self.tell(id, Input::Wake);
        }
        self.state.wrongs.restless |= due(self.state, self.config);
    }

    fn jump_back(&mut self, node: u8) {
        self.spend(Fault::JumpBack);
        let ttl = self.config.ttl.as_millis();
        let node = &mut self.state.nodes[usize::from(node)];
        node.left += small(ttl);
        self.state.wrongs.orphan |= invariants::no_orphan(u64::from(node.left), ttl).is_err();
    }

    /// Connections break: what had not arrived never will, and clients see an error.
    fn restart(&mut self, node: u8) {
        self.spend(Fault::Restart);
        for id in (0u8..).take(C) {
            let link = &mut self.state.links[usize::from(id)][usize::from(node)];
            let (Slot::Asked(packet) | Slot::Answered(packet, _)) = link.slot else { continue };
            link.advance();
            self.hear(id, node, packet, Reply::Unknown);
        }
    }

    fn wipe(&mut self, node: u8) {
        self.spend(Fault::Wipe);
        self.change(node, |node| node.wipe());
        let node = &mut self.state.nodes[usize::from(node)];
        match self.settings.rejoin {
            Rejoin::AsItIs => {}
            Rejoin::AsIfNew => *node = Node { epoch: 1, ..Node::default() },
            Rejoin::AfterSilence(ticks) => *node = Node { epoch: 1, silent: ticks, ..Node::default() },
        }
    }

    fn die(&mut self, id: u8) {
        self.spend(Fault::Crash);
        let index = usize::from(id);
        let client = &mut self.state.clients[index];
        client.app = App::Dead;
        client.session = None;
        client.pace = Pace::Running;
        self.state.links[index].iter_mut().for_each(super::link::Link::forget);
        self.settle(id);
    }
}

fn signer(settings: &Settings, client: u8, attempt: u8) -> Signer {
    match settings.owners {
        Owners::PerAttempt => Signer::new(client, attempt),
        Owners::PerClient => Signer::new(client, 0),
    }
}
