//! A client: the shipped lock on a thread of its own, which can be frozen whole, as SIGSTOP freezes a process.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use redfence::lock::clock::{Clock, SystemClock};
use redfence::proto::Timestamp;
use redfence::{DistributedLock, Lease, LockGuard};
use tokio::sync::mpsc as queue;

/// What is locked in every replay.
pub(crate) const NAME: &str = "invoices/42";

pub(crate) struct Client {
    orders: Option<queue::UnboundedSender<Order>>,
    seen: Arc<Mutex<Seen>>,
    thaw: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    Begin,
    Release,
    /// Stand still until the other end speaks or is gone.
    Freeze(mpsc::Receiver<()>, mpsc::Sender<()>),
}

/// What is known of it from outside, frozen or not.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) attempts: u64,
    pub(crate) lease: Option<Lease>,
    pub(crate) failed: Option<String>,
}

impl Client {
    pub(crate) fn start(locks: DistributedLock) -> Self {
        let (orders, inbox) = queue::unbounded_channel();
        let seen = Arc::<Mutex<Seen>>::default();
        let shared = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime.expect("a runtime"), live(locks, inbox, shared));
        });
        Self { orders: Some(orders), seen, thaw: None, thread: Some(thread) }
    }

    pub(crate) fn begin(&self) {
        self.order(Order::Begin);
    }

    pub(crate) fn release(&self) {
        self.order(Order::Release);
    }

    /// Returns when it stands still.
    pub(crate) fn freeze(&mut self) {
        let (thaw, thawed) = mpsc::channel();
        let (frozen, stands_still) = mpsc::channel();
        self.order(Order::Freeze(thawed, frozen));
        stands_still.recv().expect("the client lives");
        self.thaw = Some(thaw);
    }

    pub(crate) fn thaw(&mut self) {
        self.thaw = None;
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.thaw.is_some()
    }

    pub(crate) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    fn order(&self, order: Order) {
        let sent = self.orders.as_ref().map(|orders| orders.send(order).is_ok());
        assert_eq!(sent, Some(true), "the client lives");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.thaw = None;
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn live(locks: DistributedLock, mut inbox: queue::UnboundedReceiver<Order>, seen: Arc<Mutex<Seen>>) {
    let held: Rc<RefCell<Option<LockGuard>>> = Rc::default();
    while let Some(order) = inbox.recv().await {
        match order {
            Order::Begin => {
                lock(&seen).attempts += 1;
                let (locks, seen, held) = (locks.clone(), Arc::clone(&seen), Rc::clone(&held));
                tokio::task::spawn_local(async move {
                    match locks.try_acquire(NAME).await {
                        Ok(guard) => {
                            let lease = guard.lease().clone();
                            lock(&seen).lease = Some(lease.clone());
                            *held.borrow_mut() = Some(guard);
                            // As in the model: whoever sees that the lock is lost lets it go, also with a write on its way.
                            lease.lost().await;
                            drop(held.borrow_mut().take());
                        }
                        Err(error) => lock(&seen).failed = Some(error.to_string()),
                    }
                });
            }
            Order::Release => {
                let guard = held.borrow_mut().take();
                if let Some(guard) = guard {
                    tokio::task::spawn_local(guard.release());
                }
            }
            Order::Freeze(thawed, frozen) => {
                let _ = frozen.send(());
                let _ = thawed.recv(); // blocks the thread, and with it all that this client does
            }
        }
    }
}

/// A client's clock that can be made to stand still, as `CLOCK_MONOTONIC` does while a machine is suspended.
///
/// The shipped clock counts that time; this one is what S8 needs to go wrong.
#[derive(Debug, Default)]
pub(crate) struct StoppingClock {
    real: SystemClock,
    stopped: AtomicBool,
    at: AtomicU64,
    missed: AtomicU64,
}

impl StoppingClock {
    pub(crate) fn stop(&self) {
        self.at.store(self.now().as_micros(), Ordering::SeqCst);
        self.stopped.store(true, Ordering::SeqCst);
    }

    pub(crate) fn go_on(&self) {
        let real = self.real.now().as_micros();
        self.missed.store(real - self.at.load(Ordering::SeqCst), Ordering::SeqCst);
        self.stopped.store(false, Ordering::SeqCst);
    }
}

impl Clock for StoppingClock {
    fn now(&self) -> Timestamp {
        if self.stopped.load(Ordering::SeqCst) {
            return Timestamp::from_micros(self.at.load(Ordering::SeqCst));
        }
        let real = self.real.now().as_micros();
        Timestamp::from_micros(real - self.missed.load(Ordering::SeqCst))
    }

    fn unix_micros(&self) -> u64 {
        self.real.unix_micros()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
