//! Connections that are cut in the middle of something, and services that are not there.

use redfence::lock::ReleaseOutcome;
use redfence::lock::error::AcquireError;

use crate::service::{Kind, NAME, Proxied, SOON, Service, acquire, measured, ms, on_both, release, token};
use crate::support::{Live, Stopwatch};

pub(crate) fn tests() -> Vec<Live> {
    on_both![
        b89_a_place_of_a_session_that_ended_is_proof_of_nothing,
        b90_a_release_without_connection_is_made_up_for,
        b90_an_acquisition_cut_off_half_way_leaves_nothing,
        b91_a_wait_cancelled_without_connection_leaves_nothing,
        a_service_that_is_not_there_is_told_apart_from_a_lock_that_is_held,
        a_service_that_comes_back_is_found_by_who_waits,
    ]
}

async fn b89_a_place_of_a_session_that_ended_is_proof_of_nothing(kind: Kind) {
    let proxied = Proxied::start(kind);
    let (cut_off, direct) = (proxied.locks(), proxied.service.locks());
    let ttl = ms(2_000);
    let guard = direct.on(NAME).wait(SOON).auto_extend(true).acquire().await.expect("free");
    let waits = cut_off.clone();
    let waiting = tokio::spawn(async move { waits.on(NAME).ttl(ttl).wait(SOON * 2).acquire().await });
    proxied.service.until_places(NAME, 2).await;
    let place = proxied.service.places(NAME).await[1].clone();
    // Its place is there a moment before it has heard so; then it waits.
    tokio::time::sleep(ms(500)).await;
    proxied.proxy.black_hole();
    // The lease or session of the waiter ends at the service, which cannot tell it.
    proxied.service.until_places(NAME, 1).await;
    let last = token(&guard);
    release(guard).await;
    proxied.proxy.pass();
    let outcome = tokio::time::timeout(SOON * 2, waiting).await.expect("an outcome").expect("no panic");
    match outcome {
        Err(error) => assert!(matches!(error, AcquireError::PlaceLost { .. }), "{error}"),
        // Cut off before it had heard of its place, it is right to line up again: at another place.
        Ok(guard) => {
            assert_ne!(guard.owner().to_string(), place.owner, "the place that was gone was proof");
            assert!(token(&guard) > last, "{} after {last}", token(&guard));
            release(guard).await;
        }
    }
    let guard = cut_off.on(NAME).ttl(ttl).wait(SOON).acquire().await.expect("a new session");
    assert!(token(&guard) > last);
    assert!(direct.try_acquire(NAME).await.is_err(), "two holders");
    release(guard).await;
}

async fn b90_a_release_without_connection_is_made_up_for(kind: Kind) {
    let proxied = Proxied::start(kind);
    let (cut_off, direct) = (proxied.locks(), proxied.service.locks());
    let ttl = ms(6_000);
    let guard = cut_off.on(NAME).ttl(ttl).wait(SOON).auto_extend(true).acquire().await.expect("free");
    proxied.proxy.cut();
    let watch = Stopwatch::start();
    let released = guard.release().await;
    assert_eq!(released.outcome, ReleaseOutcome::Unknown);
    assert!(
        watch.elapsed() < ms(2_500),
        "who releases waits no longer than its patience: {:?}",
        watch.elapsed()
    );
    proxied.proxy.pass();
    let guard = acquire(&direct).await;
    let took = watch.elapsed();
    measured("b90", kind, "released without connection, free after", took);
    assert!(took < ttl + ms(2_000), "{took:?}");
    assert!(cut_off.drain(SOON).await);
    assert_eq!(proxied.service.places(NAME).await.len(), 1);
    release(guard).await;
}

async fn b90_an_acquisition_cut_off_half_way_leaves_nothing(kind: Kind) {
    let proxied = Proxied::start(kind);
    let (cut_off, direct) = (proxied.locks(), proxied.service.locks());
    let ttl = ms(3_000);
    release(cut_off.on(NAME).ttl(ttl).wait(SOON).acquire().await.expect("free")).await;
    for round in 0..6 {
        // The service does what it is asked, and nobody hears of it.
        proxied.proxy.drop_replies();
        let acquired = cut_off.on(NAME).ttl(ttl).try_acquire().await;
        let error = acquired.expect_err("nothing was heard");
        assert!(matches!(error, AcquireError::NoQuorum { .. } | AcquireError::PlaceLost { .. }), "{error}");
        proxied.proxy.pass();
        if round % 2 == 0 {
            let watch = Stopwatch::start();
            release(acquire(&direct).await).await;
            measured("b90", kind, "the next has the lock after", watch.elapsed());
        }
    }
    assert!(cut_off.drain(SOON).await);
    proxied.service.until_places(NAME, 0).await;
}

async fn b91_a_wait_cancelled_without_connection_leaves_nothing(kind: Kind) {
    let proxied = Proxied::start(kind);
    let (cut_off, direct) = (proxied.locks(), proxied.service.locks());
    // Long: the session or lease survives the cut, so only the clean-up can remove the place.
    let ttl = ms(4_000);
    let guard = direct.on(NAME).wait(SOON).auto_extend(true).acquire().await.expect("free");
    let waits = cut_off.clone();
    let waiting = tokio::spawn(async move { waits.on(NAME).ttl(ttl).acquire().await });
    proxied.service.until_places(NAME, 2).await;
    proxied.proxy.cut();
    waiting.abort();
    assert!(waiting.await.is_err());
    tokio::time::sleep(ms(300)).await;
    proxied.proxy.pass();
    let watch = Stopwatch::start();
    proxied.service.until_places(NAME, 1).await;
    measured("b91", kind, "the cancelled place is gone after", watch.elapsed());
    assert!(watch.elapsed() < ttl + ms(2_000), "{:?}", watch.elapsed());
    assert!(cut_off.drain(SOON).await);
    release(guard).await;
}

async fn a_service_that_is_not_there_is_told_apart_from_a_lock_that_is_held(kind: Kind) {
    let service = Service::start(kind, 3);
    let locks = service.locks();
    release(acquire(&locks).await).await;
    (0..3).for_each(|member| service.kill(member));
    let watch = Stopwatch::start();
    let error = locks.try_acquire(NAME).await.expect_err("nobody is there");
    measured("all killed", kind, "told after", watch.elapsed());
    assert!(matches!(error, AcquireError::NoQuorum { needed: 2, nodes: 3, .. }), "{error}");
    assert!(error.is_retryable());
    assert!(watch.elapsed() < ms(8_000), "{:?}", watch.elapsed());
    let (wait, watch) = (ms(1_000), Stopwatch::start());
    let error = locks.acquire(NAME, wait).await.expect_err("nobody is there");
    assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}");
    assert!(wait <= watch.elapsed() && watch.elapsed() < ms(8_000), "{:?}", watch.elapsed());
}

async fn a_service_that_comes_back_is_found_by_who_waits(kind: Kind) {
    let service = Service::start(kind, 1);
    let locks = service.locks();
    let guard = acquire(&locks).await;
    let last = token(&guard);
    release(guard).await;
    service.kill(0);
    let waits = locks.clone();
    let waiting = tokio::spawn(async move { waits.acquire(NAME, SOON * 3).await });
    tokio::time::sleep(ms(1_500)).await;
    assert!(!waiting.is_finished());
    service.restart(0);
    let watch = Stopwatch::start();
    let guard = waiting.await.expect("no panic").expect("it is back");
    measured("comes back", kind, "acquired after", watch.elapsed());
    assert!(token(&guard) > last, "the history goes on");
    release(guard).await;
}
