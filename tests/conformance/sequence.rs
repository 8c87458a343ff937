//! Random sequences: drawn from a seed, and cut down when one of them fails.

use std::fmt::Debug;

use fastrand::Rng;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Draws sequences of steps and runs each; `run` answers what was wrong. `normal` is the number of sequences that a
/// few seconds allow.
pub(crate) fn check<S: Clone + Debug>(
    normal: u64,
    mut draw: impl FnMut(&mut Rng) -> Vec<S>,
    mut run: impl FnMut(&[S]) -> Result<(), String>,
) {
    let first = setting("REDFENCE_CONFORMANCE_SEED").unwrap_or(1);
    let runs = setting("REDFENCE_CONFORMANCE_RUNS").unwrap_or(normal);
    for seed in first..first.saturating_add(runs) {
        let steps = draw(&mut Rng::with_seed(seed));
        if run(&steps).is_err() {
            let (steps, problem) = cut_down(steps, &mut run);
            let told: String = steps.iter().map(|step| format!("  {step:?}\n")).collect();
            panic!("REDFENCE_CONFORMANCE_SEED={seed} REDFENCE_CONFORMANCE_RUNS=1\n{told}{problem}");
        }
    }
}

/// Leaves out steps, the last first, as long as what is left still fails.
fn cut_down<S: Clone>(
    mut steps: Vec<S>,
    run: &mut impl FnMut(&[S]) -> Result<(), String>,
) -> (Vec<S>, String) {
    let mut problem = "it failed once, and then no more".to_owned();
    for at in (0..steps.len()).rev() {
        let mut fewer = steps.clone();
        fewer.remove(at);
        if let Err(text) = run(&fewer) {
            (steps, problem) = (fewer, text);
        }
    }
    if let Err(text) = run(&steps) {
        problem = text;
    }
    (steps, problem)
}

/// One of these, each as likely as the other.
pub(crate) fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    *rng.choice(from).expect("something to choose from")
}
