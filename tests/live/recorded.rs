//! What was recorded of live attempts, run again: the machine says the same, so the lock that ran is the one that was checked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use redfence::lock::record::{Recorder, Step};
use redfence::proto::session::Config;
use redfence::proto::{Output, Owner, Session};

use crate::setup::{LONG, NAME, Proxied, SOON, measured, ms};
use crate::support::{Live, live_tests};

pub(crate) fn tests() -> Vec<Live> {
    live_tests![
        multi_thread:
            attempts_on_real_nodes_say_the_same_when_run_again;
    ]
}

/// Runs every attempt again while it is recorded.
#[derive(Debug, Default)]
struct Again(Mutex<Attempts>);

#[derive(Debug, Default)]
struct Attempts {
    open: BTreeMap<Owner, Attempt>,
    inputs: usize,
    differences: Vec<String>,
}

#[derive(Debug)]
struct Attempt {
    session: Session,
    config: Config,
    /// Said to the latest input, until the recorded outputs come.
    said: Vec<Output>,
}

impl Recorder for Again {
    fn record(&self, owner: Owner, step: Step<'_>) {
        let mut attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Attempts { open, inputs, differences } = &mut *attempts;
        let mut compare = |said: &[Output], recorded: &[Output]| {
            if said != recorded {
                differences.push(format!("{}: {said:?}, recorded {recorded:?}", owner.short()));
            }
        };
        match step {
            Step::Begun { config, hint, now, .. } => {
                let mut said = Vec::new();
                let session = Session::new(config, owner, hint, now, &mut said);
                open.insert(owner, Attempt { session, config: *config, said });
            }
            Step::Input { now, input } => {
                let attempt = open.get_mut(&owner).expect("an attempt begins before it is told anything");
                compare(&attempt.said, &[]);
                attempt.said.clear();
                attempt.session.handle(&attempt.config, now, input, &mut attempt.said);
                *inputs += 1;
            }
            Step::Outputs(recorded) => {
                let attempt = open.get_mut(&owner).expect("an attempt begins before it says anything");
                compare(&attempt.said, recorded);
                attempt.said.clear();
            }
        }
    }
}

async fn attempts_on_real_nodes_say_the_same_when_run_again() {
    const EACH: u32 = 15;
    let proxied = Proxied::start(5);
    let again = Arc::new(Again::default());
    let work = |_| {
        let recorder: Arc<dyn Recorder> = Arc::clone(&again) as _;
        let locks = proxied.builder().patience(ms(1_000)).recorder(recorder).build().expect("a lock");
        async move {
            for _ in 0..EACH {
                let guard = locks.acquire(NAME, LONG).await.expect("its turn comes");
                guard.extend(LONG).await.ok();
                guard.release().await;
            }
            locks.drain(LONG).await
        }
    };
    let workers: Vec<_> = (0..3).map(|who| tokio::spawn(work(who))).collect();
    // Answers that are held back, and connections that end under requests.
    for round in 0..6 {
        let proxy = &proxied.proxies[round % 5];
        proxy.hold_replies();
        tokio::time::sleep(ms(30)).await;
        proxy.reset();
        proxy.pass();
    }
    for worker in workers {
        assert!(tokio::time::timeout(SOON * 6, worker).await.expect("in time").expect("no panic"));
    }
    let attempts = again.0.lock().unwrap_or_else(PoisonError::into_inner);
    measured("recorded attempts", "attempts and inputs run again", (attempts.open.len(), attempts.inputs));
    assert_eq!(attempts.differences, Vec::<String>::new());
    assert!(attempts.open.len() >= 45 && attempts.inputs > 45 * 10, "{}", attempts.inputs);
    let open: Vec<_> = attempts.open.values().filter(|attempt| !attempt.said.is_empty()).collect();
    assert!(open.is_empty(), "said and never recorded: {open:?}");
}
