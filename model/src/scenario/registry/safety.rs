//! S1 to S11: two believers, or damage, by faults of the world.

use super::{FENCED, drift, faults, guard, holds, long, reached, scenario, violated};
use crate::scenario::Scenario;
use crate::world::Property::{AllWin, Belief, Damage, FenceRefuses, TokenOrder, Win};
use crate::world::{Faults, Guard, Rejoin, Settings};

const CLASSIC: Settings = Settings::CLASSIC;
const NONE: Faults = Faults::NONE;

const fn silent(settings: Settings, ticks: u8) -> Settings {
    Settings { rejoin: Rejoin::AfterSilence(ticks), ..settings }
}

pub(super) fn scenarios() -> Vec<Scenario> {
    [clocks(), data(), clients()].concat()
}

fn clocks() -> Vec<Scenario> {
    let jump = Faults { jump: 1, ..NONE };
    vec![
        scenario(
            "s1-clock-jump",
            "a node's clock jumps forward: two believers (Kleppmann; conceded for wall clocks)",
            faults(CLASSIC, jump),
            0,
            &[violated(Belief, 11), violated(Damage, 15)],
        ),
        scenario(
            "s1-clock-jump-fenced",
            "the fence keeps the data safe, not the exclusion",
            faults(FENCED, jump),
            678_670,
            &[violated(Belief, 13), holds(Damage), holds(TokenOrder), reached(FenceRefuses)],
        ),
        scenario(
            "s2-rate-drift",
            "a node's clock runs a tick fast per TTL and no margin is taken: two believers",
            drift(CLASSIC, 0, 1, 0),
            0,
            &[violated(Belief, 12)],
        ),
        scenario(
            "s2-rate-drift-repaired",
            "a margin of one tick for one tick of error is enough: the bound is tight",
            drift(CLASSIC, 1, 1, 0),
            43_880,
            &[holds(Belief), holds(Damage), reached(AllWin)],
        ),
        scenario(
            "s2-both-drift",
            "node a tick fast and client a tick slow: a margin of one is not enough",
            drift(CLASSIC, 1, 1, 1),
            0,
            &[violated(Belief, 12)],
        ),
        scenario(
            "s2-both-drift-repaired",
            "errors of node and client add up, and so must the margin",
            drift(CLASSIC, 2, 1, 1),
            43_880,
            &[holds(Belief), holds(Damage), reached(Win)],
        ),
        scenario(
            "s9-client-clock-back",
            "a client's clock is set back between asking and counting: a lapsed lock is accepted",
            faults(CLASSIC, Faults { clock_back: 1, ..NONE }),
            0,
            &[violated(Belief, 14)],
        ),
        long(scenario(
            "s9-client-clock-back-fenced",
            "the fence keeps the data safe",
            faults(FENCED, Faults { clock_back: 1, ..NONE }),
            1_518_591,
            &[violated(Belief, 14), holds(Damage), holds(TokenOrder)],
        )),
    ]
}

fn data() -> Vec<Scenario> {
    let wipe = Faults { wipe: 1, ..NONE };
    let rollback = Faults { rollback: 1, ..NONE };
    vec![
        scenario(
            "s3-empty-restart",
            "a node restarts without its data: two believers",
            faults(CLASSIC, wipe),
            0,
            &[violated(Belief, 11), violated(Damage, 15)],
        ),
        scenario(
            "s3-empty-restart-repaired",
            "delayed restart: silent for a whole TTL, and exclusion holds",
            silent(faults(CLASSIC, wipe), 3),
            138_733,
            &[holds(Belief), holds(Damage), reached(AllWin)],
        ),
        scenario(
            "s3-empty-restart-fenced",
            "amnesia guard: an empty node does not vote; exclusion and tokens hold without waiting",
            faults(FENCED, wipe),
            432_153,
            &[holds(Belief), holds(Damage), holds(TokenOrder), reached(AllWin)],
        ),
        scenario(
            "s4-lost-tail",
            "power loss under fsync everysec: the node comes back with an old copy; two believers",
            faults(CLASSIC, rollback),
            0,
            &[violated(Belief, 11)],
        ),
        scenario(
            "s4-lost-tail-repaired",
            "every write is on disk before its answer (appendfsync always): a restart is harmless",
            faults(CLASSIC, Faults { restart: 1, ..NONE }),
            64_705,
            &[holds(Belief), holds(Damage), reached(AllWin)],
        ),
        scenario(
            "s4-lost-tail-fenced",
            "a lost tail cannot be seen by the amnesia guard: tokens break too",
            faults(FENCED, rollback),
            0,
            &[violated(Belief, 11), violated(TokenOrder, 11)],
        ),
        scenario(
            "s5-delayed-restart-jump",
            "delayed restart needs a good clock: its silence is cut short by a jump",
            silent(faults(CLASSIC, Faults { wipe: 1, jump: 1, ..NONE }), 3),
            0,
            &[violated(Belief, 11)],
        ),
        scenario(
            "s5-short-silence",
            "silence shorter than the largest TTL in use",
            silent(faults(CLASSIC, wipe), 1),
            0,
            &[violated(Belief, 12)],
        ),
        scenario(
            "s5-extension",
            "an extension does not defeat a silence of one TTL: it needs a quorum without the silent node",
            silent(faults(CLASSIC, Faults { wipe: 1, extend: 1, ..NONE }), 3),
            1_123_294,
            &[holds(Belief), holds(Damage)],
        ),
        scenario(
            "s6-failover",
            "one master with a replica: the master dies before replication, the replica lets another in",
            Settings { nodes: 1, ..faults(CLASSIC, rollback) },
            0,
            &[violated(Belief, 7), violated(Damage, 11)],
        ),
        scenario(
            "s7-eviction",
            "the lock key is evicted or deleted by hand: two believers",
            faults(CLASSIC, Faults { evict: 1, ..NONE }),
            0,
            &[violated(Belief, 11)],
        ),
        scenario(
            "s7-eviction-fenced",
            "the fence keeps the data safe: the number is a key of its own",
            faults(FENCED, Faults { evict: 1, ..NONE }),
            678_670,
            &[violated(Belief, 13), holds(Damage), holds(TokenOrder)],
        ),
    ]
}

fn clients() -> Vec<Scenario> {
    let pause = Faults { pause: 1, ..NONE };
    let stop = Faults { stop: 1, ..NONE };
    let delay = Faults { delay: 1, ..NONE };
    vec![
        scenario(
            "s8-stopped-clock",
            "a client is suspended, and its clock with it: it accepts or keeps a lapsed lock",
            faults(CLASSIC, stop),
            0,
            &[violated(Belief, 14), violated(Damage, 21)],
        ),
        scenario(
            "s8p-honest-clock",
            "S8': a pause while answers are on their way, but the clock goes on: never two believers",
            guard(faults(CLASSIC, pause), Guard::Open),
            1_780_097,
            &[holds(Belief), reached(AllWin)],
        ),
        long(scenario(
            "s8-stopped-clock-fenced",
            "the fence keeps the data safe",
            faults(FENCED, stop),
            3_939_106,
            &[violated(Belief, 14), holds(Damage), holds(TokenOrder), reached(FenceRefuses)],
        )),
        long(scenario(
            "s10-pause-after-check",
            "a pause between check and write: a stale write, although never two believe",
            faults(CLASSIC, pause),
            1_780_097,
            &[holds(Belief), violated(Damage, 21)],
        )),
        long(scenario(
            "s10-pause-after-check-repaired",
            "fenced on reads and writes: the stale write is refused, or comes before the newer read",
            faults(FENCED, pause),
            10_448_508,
            &[holds(Belief), holds(Damage), holds(TokenOrder), reached(FenceRefuses)],
        )),
        scenario(
            "s11-delayed-write",
            "a write is delayed in the network past the next holder's read",
            faults(CLASSIC, delay),
            935_742,
            &[holds(Belief), violated(Damage, 18)],
        ),
        long(scenario(
            "s11-delayed-write-repaired",
            "fenced on reads and writes: the late write is refused",
            faults(FENCED, delay),
            5_254_980,
            &[holds(Belief), holds(Damage), holds(TokenOrder), reached(FenceRefuses)],
        )),
    ]
}
