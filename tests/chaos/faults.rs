//! One kind of fault at a time, under fenced Redlock: the counter ends at exactly 3000.

use fastrand::Rng;
use redfence::simulate::Strategy;

use crate::run::{Plan, Run};
use crate::support::{Live, require_own_clock};
use crate::{links, nodes, workers};

/// What strikes, and how.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) strike: fn(&Run, &mut Rng),
    /// How often, spread over the work.
    pub(crate) strikes: u64,
    /// What must have been counted, and how often at least.
    pub(crate) evidence: &'static [(&'static str, u64)],
    pub(crate) needs: Needs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// Links to three nodes: enough for a majority.
    Links,
    CounterLink,
    /// And with it, exclusion is not promised: only tokens and updates are.
    Clocks,
}

const fn fault(
    name: &'static str,
    strikes: u64,
    needs: Needs,
    strike: fn(&Run, &mut Rng),
    evidence: &'static [(&'static str, u64)],
) -> Fault {
    Fault { name, strike, strikes, evidence, needs }
}

use Needs::{Clocks, CounterLink, Links, Nothing};

pub(crate) const FAULTS: [Fault; 23] = [
    fault("nothing", 0, Nothing, |_, _| {}, &[]),
    fault("nodes_killed_and_restarted_with_data", 5, Nothing, nodes::killed, &[("node kills", 5)]),
    fault(
        "all_nodes_killed_and_restarted_with_data",
        2,
        Nothing,
        nodes::all_killed,
        &[("kills of all nodes", 2)],
    ),
    fault("nodes_restarted_empty_and_readmitted", 3, Nothing, nodes::emptied, &[("nodes emptied", 3)]),
    fault("a_node_flushed_and_readmitted", 2, Nothing, nodes::flushed, &[("FLUSHALL", 2)]),
    fault("nodes_frozen", 5, Nothing, nodes::frozen, &[("node freezes", 5)]),
    fault("a_majority_of_nodes_frozen", 3, Nothing, nodes::majority_frozen, &[("freezes of a majority", 3)]),
    fault("connections_killed", 8, Nothing, nodes::clients_killed, &[("connections killed", 8)]),
    fault(
        "scripts_flushed",
        8,
        Nothing,
        nodes::scripts_flushed,
        &[("SCRIPT FLUSH", 40), ("NOSCRIPT answers", 8)],
    ),
    fault("a_nodes_clock_jumps", 12, Clocks, nodes::clock_jumps, &[("clock jumps", 12)]),
    fault("a_nodes_clock_drifts", 4, Clocks, nodes::clock_drifts, &[("ms of clock drift", 480)]),
    fault("a_minority_cut_off", 5, Links, links::minority_cut, &[("partitions of a minority", 5)]),
    fault("a_majority_cut_off", 3, Links, links::majority_cut, &[("partitions of a majority", 3)]),
    fault("one_worker_cut_off", 4, Links, links::one_worker_cut, &[("partitions of one worker", 4)]),
    fault("one_way_cuts", 3, Links, links::one_way, &[("one-way cuts", 15)]),
    fault(
        "answers_of_nodes_lost",
        3,
        Links,
        links::replies_dropped,
        &[("nodes whose answers were lost", 15)],
    ),
    fault(
        "answers_of_the_counter_lost",
        3,
        CounterLink,
        links::counter_replies_dropped,
        &[("answers of the counter lost", 3)],
    ),
    fault("black_holes", 3, Links, links::black_hole, &[("black holes", 3)]),
    fault("half_open_connections", 3, Links, links::half_open, &[("half-open nodes", 3)]),
    fault("delays", 3, Links, links::delayed, &[("requests delayed", 30)]),
    fault("connections_reset", 8, Links, links::reset, &[("nodes whose connections were reset", 8)]),
    fault("workers_frozen", 3, Nothing, workers::frozen, &[("worker freezes", 3)]),
    fault("workers_killed_and_replaced", 6, Nothing, workers::killed, &[]),
];

pub(crate) fn tests() -> Vec<Live> {
    let mut tests: Vec<_> = FAULTS.iter().map(|fault| test(fault, Strategy::Fenced)).collect();
    if std::env::var_os("REDFENCE_CHAOS_CLASSIC").is_some_and(|value| value == "1") {
        tests.extend(FAULTS.iter().map(|fault| test(fault, Strategy::Classic)));
    }
    tests
}

fn test(fault: &'static Fault, strategy: Strategy) -> Live {
    let name = format!("{strategy}::{}", fault.name);
    let live = Live::sync(&name, move || under(fault, strategy));
    if fault.needs == Clocks { live.needing(require_own_clock) } else { live }
}

impl Fault {
    pub(crate) fn plan(&self, strategy: Strategy) -> Plan {
        let mut plan = Plan::new(self.name, strategy);
        plan.links = if self.needs == Links { 3 } else { 0 };
        (plan.store_link, plan.clocks) = (self.needs == CounterLink, self.needs == Clocks);
        plan
    }

    /// Strikes as often as it is to, spread over the work.
    pub(crate) fn strike_all(&self, run: &Run, dice: &mut Rng) {
        for number in 0..self.strikes {
            run.wait_for_share(number + 1, self.strikes + 2);
            (self.strike)(run, dice);
        }
    }
}

fn under(fault: &Fault, strategy: Strategy) {
    let mut dice = Rng::with_seed(7);
    let run = Run::start(fault.plan(strategy));
    fault.strike_all(&run, &mut dice);
    let end = run.finish();
    for &(what, least) in fault.evidence {
        end.assert_injected(what, least);
    }
    if fault.name == "workers_frozen" {
        assert!(end.row.lock_losses >= fault.strikes, "{:?}", end.row);
    }
    if fault.name == "workers_killed_and_replaced" {
        end.assert_injected("worker kills", 1);
        end.assert_injected("worker kills with the lock", 1);
        // Whoever took over went on where the dead one had stopped.
        let taken_over = end.told.iter().flat_map(|told| told.taken_over.iter().skip(1));
        assert!(
            taken_over.clone().count() as u64 >= fault.strikes && taken_over.clone().all(|&first| first > 1)
        );
    }
    if strategy == Strategy::Fenced {
        end.assert_exact();
        if fault.needs != Clocks {
            end.assert_without("belief");
        }
    }
}
