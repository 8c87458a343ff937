//! Where classic Redlock must lose, beside fenced Redlock, which does not: the same faults, the same strikes.

use fastrand::Rng;
use redfence::simulate::Strategy;

use crate::faults::{Fault, Needs};
use crate::run::{Finished, Run, ms};
use crate::support::{Live, require_own_clock};
use crate::workers;

const PAUSE: Fault = Fault {
    name: "workers_paused_between_check_and_write",
    strike: workers::paused_at_the_brink,
    strikes: 4,
    evidence: &[("pauses between check and write", 4)],
    needs: Needs::Nothing,
};

const JUMP: Fault = Fault {
    name: "clocks_of_a_majority_jump_under_a_holder",
    strike: workers::clocks_jump_under_a_holder,
    strikes: 4,
    evidence: &[("holders whose keys ended early", 4), ("clock jumps", 12)],
    needs: Needs::Clocks,
};

pub(crate) fn tests() -> Vec<Live> {
    vec![
        Live::sync("none::nothing_loses_updates", no_lock_loses_updates),
        Live::sync("classic::workers_paused_between_check_and_write_lose_updates", || {
            let end = under(&PAUSE, Strategy::Classic);
            assert_loses(&end, &PAUSE);
        }),
        Live::sync("fenced::workers_paused_between_check_and_write", || {
            let end = under(&PAUSE, Strategy::Fenced);
            end.assert_exact();
            assert!(end.row.fence_rejections >= PAUSE.strikes, "{:?}", end.row);
            end.assert_without("belief");
        }),
        Live::sync("classic::clocks_of_a_majority_jump_under_a_holder_lose_updates", || {
            let end = under(&JUMP, Strategy::Classic);
            assert_loses(&end, &JUMP);
            assert!(end.row.two_believers >= JUMP.strikes, "{:?}", end.row);
        })
        .needing(require_own_clock),
        Live::sync("fenced::clocks_of_a_majority_jump_under_a_holder", || {
            let end = under(&JUMP, Strategy::Fenced);
            end.assert_exact();
            assert!(end.row.fence_rejections >= JUMP.strikes, "{:?}", end.row);
            // The very same two holders: what saves the counter is the token, and not the lock.
            assert!(end.row.two_believers >= JUMP.strikes, "{:?}", end.row);
        })
        .needing(require_own_clock),
    ]
}

fn no_lock_loses_updates() {
    let run = Run::start(crate::run::Plan::new("nothing", Strategy::None));
    let end = run.finish();
    assert!(end.row.lost_updates > 0, "{:?}", end.row);
}

fn under(fault: &Fault, strategy: Strategy) -> Finished {
    let mut plan = fault.plan(strategy);
    if fault.needs == Needs::Clocks {
        // Nothing but the jump may end a lease.
        plan.ttl = ms(20_000);
    }
    let run = Run::start(plan);
    fault.strike_all(&run, &mut Rng::with_seed(7));
    let end = run.finish();
    for &(what, least) in fault.evidence {
        end.assert_injected(what, least);
    }
    end
}

/// Each strike costs at least what the others had done meanwhile.
fn assert_loses(end: &Finished, fault: &Fault) {
    assert!(end.row.lost_updates >= fault.strikes as i64, "{:?}", end.row);
    let lost = end.violations.iter().filter(|wrong| wrong.property() == "damage").count() as u64;
    assert!(lost >= fault.strikes, "the judge sees {lost} of them; {:?}", end.row);
}
