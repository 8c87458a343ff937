//! Outside the assumptions: a node that loses its last writes and keeps its epoch (S4 in `docs/limitations.md`). It cannot be
//! recognised, and what it costs is shown here. `appendfsync always` is what keeps it away.

use std::time::Duration;

use fastrand::Rng;
use redfence::simulate::Strategy;

use crate::run::{NODES, Plan, Run, ms};
use crate::support::{Live, Restart, wait_until};

pub(crate) fn tests() -> Vec<Live> {
    vec![
        Live::sync("fenced::s4_last_writes_lost_repeat_a_token_and_cost_an_update", a_token_is_repeated),
        Live::sync("fenced::s4_log_tails_cut_at_random", log_tails_cut_at_random),
    ]
}

/// Three of five grant one worker. One of them forgets that, keeps its epoch, and lends the next worker the same number.
fn a_token_is_repeated() {
    let mut plan = Plan::new("last_writes_lost_by_design", Strategy::Fenced);
    (plan.links, plan.workers, plan.operations, plan.ttl) = (NODES, 2, 1, Duration::from_secs(60));
    let run = Run::prepare(plan);
    [3, 4].iter().for_each(|&node| run.links[0][node].cut());
    [0, 1].iter().for_each(|&node| run.links[1][node].cut());
    let before = run.nodes[2].append_only_length();
    run.worker(0).start_with(&["linger"]);
    wait_until(ms(30_000), || run.told(0, |told| told.lingers) == 1);

    run.nodes[2].kill();
    run.nodes[2].cut_append_only(before);
    run.nodes[2].restart(Restart::KeepData);
    run.count("log tails cut", 1);
    run.worker(1).start_with(&[]);
    wait_until(ms(30_000), || run.has_finished(1));
    run.worker(0).order("go");
    let end = run.finish();

    let tokens: Vec<_> = end.told.iter().map(|told| told.holds.last().expect("a hold").token).collect();
    assert_eq!(tokens[0], tokens[1], "the node has not forgotten: {:?}", end.row);
    assert!(end.row.tokens_out_of_order > 0 && end.row.two_believers > 0, "{:?}", end.row);
    assert_eq!((end.row.last, end.row.lost_updates), (1, 1), "{:?}", end.row);
}

/// The experiment, with nodes that lose the ends of their logs. Nothing is promised; what happened is in the table.
fn log_tails_cut_at_random() {
    let mut dice = Rng::with_seed(7);
    let strikes = 4;
    let run = Run::start(Plan::new("log_tails_cut_at_random", Strategy::Fenced));
    for number in 0..strikes {
        run.wait_for_share(number + 1, strikes + 2);
        let node = &run.nodes[dice.usize(..NODES)];
        node.kill();
        let length = node.append_only_length();
        node.cut_append_only(length - length.min(dice.u64(100..2_000)));
        assert!(node.append_only_length() < length);
        node.restart(Restart::KeepData);
        run.count("log tails cut", 1);
        run.expect_progress(20);
    }
    let end = run.finish();
    end.assert_injected("log tails cut", strikes);
}
