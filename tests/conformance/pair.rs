//! An embedded node and a real Redis, side by side.

use std::net::SocketAddr;

use redfence::node::{EmbeddedNode, NodeHandle, NodeOptions};
use tokio::runtime::{Builder, Runtime};

use crate::support::{Options, RedisServer};
use crate::wire::{Answer, Resp, Wire};

/// A clock difference between two answers to one question, in milliseconds: two busy cores, and a debugger's patience.
pub(crate) const SLACK: i64 = 15_000;

/// An embedded node with a runtime of its own.
pub(crate) struct Embedded {
    // Before the runtime: it stops the node.
    handle: NodeHandle,
    _runtime: Runtime,
}

impl Embedded {
    pub(crate) fn start() -> Self {
        Self::with(&NodeOptions::new())
    }

    pub(crate) fn with(options: &NodeOptions) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let node = EmbeddedNode::new(options).expect("a node");
        let handle = runtime.block_on(node.listen("127.0.0.1:0")).expect("a free port");
        Self { handle, _runtime: runtime }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.handle.address()
    }
}

/// Both, with a connection to each.
pub(crate) struct Pair {
    pub(crate) embedded: Wire,
    pub(crate) real: Wire,
    node: Embedded,
    server: RedisServer,
}

impl Pair {
    pub(crate) fn start(resp: Resp) -> Self {
        let (node, server) = (Embedded::start(), RedisServer::with(Options::new().append_only(false)));
        let embedded = Wire::connect(node.address()).upgrade(resp);
        let real = Wire::connect(server.addr()).upgrade(resp);
        Self { embedded, real, node, server }
    }

    /// New connections to the same nodes.
    pub(crate) fn connect(&self) -> (Wire, Wire) {
        (Wire::connect(self.node.address()), Wire::connect(self.server.addr()))
    }

    /// Both answers to one question.
    pub(crate) fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> (Answer, Answer) {
        self.embedded.send(words);
        self.real.send(words);
        (self.embedded.read(), self.real.read())
    }

    /// Both empty, without scripts.
    pub(crate) fn reset(&mut self) {
        for words in [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"]] {
            let (embedded, real) = self.ask(words);
            assert_eq!((embedded, real), (Answer::Status("OK".into()), Answer::Status("OK".into())));
        }
    }
}

/// Whether two lives of one key are the same but for the time between the questions.
pub(crate) fn same_life(one: i64, other: i64) -> bool {
    one == other || (one > 0 && other > 0 && (one - other).abs() < SLACK)
}
