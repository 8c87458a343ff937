//! Workers take tasks from one queue. One of them falls asleep over its task for longer than its claim: another does the task, and the
//! sleeper's work does not count.
//!
//! `cargo run --example task_queue` needs no server.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use redfence::memory::recipes::{TaskError, TaskQueue};
use redfence::memory::{InProcessStore, SharedMemory};
use tokio::task::JoinSet;

const TASKS: usize = 20;
/// Longer than a task takes, and no longer: who dies keeps its task for so long.
const CLAIM: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let queue = TaskQueue::new(SharedMemory::new(InProcessStore::default()), "ingest");
    for task in 0..TASKS {
        queue.add(&format!("page-{task:02}"), b"https://example.org/page").await?;
    }
    let sleeper = queue.claim("sleeper", CLAIM).await?.ok_or("there are tasks")?;
    println!("sleeper claims {} and falls asleep", sleeper.task);

    let mut workers = JoinSet::new();
    for worker in 1..=3 {
        workers.spawn(work(queue.clone(), format!("worker-{worker}")));
    }
    let mut done = BTreeMap::new();
    for tasks in workers.join_all().await {
        for (task, worker) in tasks? {
            assert!(done.insert(task, worker).is_none(), "a task was done twice");
        }
    }
    println!(
        "{} of {TASKS} tasks are done, each once; {} did the sleeper's",
        done.len(),
        done[&sleeper.task]
    );
    match queue.complete(&sleeper).await {
        Err(TaskError::Stale { task, number }) => {
            println!("sleeper wakes and says that {task} is done: refused, claim {number} has ended")
        }
        other => println!("not what was to be shown: {other:?}"),
    }
    Ok(())
}

/// Takes tasks until none is left; answers what it did.
async fn work(queue: TaskQueue, name: String) -> Result<Vec<(String, String)>, TaskError> {
    let mut done = Vec::new();
    while queue.open_tasks().await? > 0 {
        let Some(claim) = queue.claim(&name, CLAIM).await? else {
            // Others have all that are left; one of them may be dead.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        tokio::time::sleep(Duration::from_millis(10)).await;
        // What the work has done elsewhere counts only if this says so.
        match queue.complete(&claim).await {
            Ok(()) => done.push((claim.task, name.clone())),
            Err(TaskError::Stale { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
