//! Every attempt's state machine, run again from the inputs that were recorded: the outputs must be the recorded ones.
//!
//! So the lock that ran in the simulation is the machine that was model-checked, step by step, and nothing but its inputs decides.

use std::collections::BTreeMap;

use redfence::proto::session::Config;
use redfence::proto::{Output, Owner, Session};

use super::Findings;
use crate::world::log::{Entry, What};

struct Again {
    session: Session,
    config: Config,
    /// What it said to the latest input, until the recorded outputs are compared with it.
    said: Vec<Output>,
}

pub(super) fn replay(entries: &[Entry], findings: &mut Findings) {
    let mut again: BTreeMap<Owner, Again> = BTreeMap::new();
    let mut wrong = |owner: Owner, said: &[Output], recorded: &[Output]| {
        let owner = owner.short();
        findings.problems.push(format!("{owner}, run again, says {said:?}; recorded were {recorded:?}"));
    };
    for Entry { what, .. } in entries {
        match what {
            What::Begun { owner, config, hint, now, .. } => {
                let mut said = Vec::new();
                let session = Session::new(config, *owner, *hint, *now, &mut said);
                again.insert(*owner, Again { session, config: **config, said });
            }
            What::Input { owner, now, input } => {
                let Some(again) = again.get_mut(owner) else {
                    wrong(*owner, &[], &[]);
                    continue;
                };
                if !again.said.is_empty() {
                    wrong(*owner, &again.said, &[]);
                }
                again.said.clear();
                again.session.handle(&again.config, *now, *input, &mut again.said);
                findings.inputs_replayed += 1;
            }
            What::Outputs { owner, outputs } => {
                let said =
                    again.get_mut(owner).map(|again| std::mem::take(&mut again.said)).unwrap_or_default();
                if said != *outputs {
                    wrong(*owner, &said, outputs);
                }
            }
            _ => {}
        }
    }
    for (owner, again) in again {
        if !again.said.is_empty() {
            wrong(owner, &again.said, &[]);
        }
    }
}
