//! The page in a real browser: what is clicked and which keys are pressed is what a person would do.
//!
//! Without a Chromium the test is ignored, with the reason; with `REDFENCE_REQUIRE_LIVE=1` it fails then. `REDFENCE_SCREENSHOTS=FOLDER`
//! saves a picture of what is seen, in light and dark.

#[path = "../support/server.rs"]
mod server;

mod chromium;

use chromium::Browser;
use libtest_mimic::{Arguments, Trial};
use server::Server;

fn main() {
    let required = std::env::var_os("REDFENCE_REQUIRE_LIVE").is_some_and(|value| value == "1");
    let trial = match (chromium::installed(), required) {
        (Some(program), _) => Trial::test("a_lock_breaks_before_your_eyes", move || {
            a_lock_breaks_before_your_eyes(&program);
            Ok(())
        }),
        (None, true) => Trial::test("a_lock_breaks_before_your_eyes", || {
            Err("REDFENCE_REQUIRE_LIVE is set, but no chromium is installed".into())
        }),
        (None, false) => Trial::test("no_chromium_is_installed", || Ok(())).with_ignored_flag(true),
    };
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit();
}

fn a_lock_breaks_before_your_eyes(program: &str) {
    let server = Server::start();
    let page = |path: &str| format!("http://{}{path}", server.address);
    let mut browser = Browser::start(program);
    let stands = |browser: &mut Browser, words: &str| {
        browser.until(&format!("document.querySelector('.stepper strong')?.innerText === '{words}'"));
    };

    // From the verdicts to a violation.
    browser.open(&page("/"));
    browser.picture("matrix");
    browser.click("#s3-empty-restart a.verdict.violated");
    stands(&mut browser, "step 11 of 11");
    assert!(browser.text(".sentence").contains("B has the lock"));
    assert_eq!(browser.value("document.querySelectorAll('svg.rf .harm-line').length"), 1);
    browser.picture("violation");

    // Step by step, with keys, buttons and the slider; the address says where.
    browser.press("ArrowLeft");
    stands(&mut browser, "step 10 of 11");
    browser.press("Home");
    stands(&mut browser, "step 0 of 11");
    browser.press("n");
    stands(&mut browser, "step 1 of 11");
    browser.press("n");
    browser.until("document.querySelector('.sentence').innerText.includes('granted')");
    let at = browser.text(".stepper strong");
    browser.click(".stepper a[rel=next]");
    browser.until(&format!("document.querySelector('.stepper strong').innerText !== '{at}'"));
    browser.press("End");
    stands(&mut browser, "step 11 of 11");

    // Faster than the pages come, and the first answer is the last: what was pressed last is where it ends.
    browser.value(
        "{ const real = fetch; let first = true; window.late = () => { first = true; }; window.fetch = async (...asked) => { \
         if (first) { first = false; await new Promise(late => setTimeout(late, 600)); } return real(...asked); }; }",
    );
    for key in ["Home", "ArrowRight", "ArrowRight", "End", "ArrowLeft", "ArrowLeft"] {
        browser.press(key);
    }
    stands(&mut browser, "step 9 of 11");
    browser.until("waiting === 0 && location.search === '?at=9'");

    // Back while a page is on its way: what is seen and the address agree.
    browser.value("late()");
    browser.press("End");
    browser.value("history.back()");
    browser.until("waiting === 0 && location.search === '?at=' + document.querySelector('.stepper strong').innerText.split(' ')[1]");
    browser.press("End");
    stands(&mut browser, "step 11 of 11");
    browser.value("(() => { const s = document.querySelector('.slider'); s.value = 9; s.dispatchEvent(new Event('change')); })()");
    stands(&mut browser, "step 9 of 11");
    assert!(browser.text(".sentence").contains("WIPE 0"));
    browser.until("location.search === '?at=9'");

    // Another action from there; the original stays in view.
    browser.click(".stepper a[rel=prev]");
    stands(&mut browser, "step 8 of 11");
    let taken = "[...document.querySelectorAll('.choices a')].findIndex(a => a.innerText.includes('one tick passes'))";
    let index = browser.value(taken).as_i64().expect("time can pass");
    browser.press(&(index + 1).to_string());
    stands(&mut browser, "step 9 of 9");
    assert!(browser.text("h1").contains("what if?"));
    assert!(browser.text(".origin").contains("WIPE 0"), "the original trace is still in view");
    browser.picture("fork");

    // Its address is all there is to it, also after going back and forth.
    let address = browser.value("location.href").as_str().expect("an address").to_owned();
    browser.value("history.back()");
    stands(&mut browser, "step 8 of 11");
    browser.open(&address);
    stands(&mut browser, "step 9 of 9");

    // Side by side with the repair.
    browser.open(&page("/compare?a=s3-empty-restart/belief&b=s3-empty-restart-repaired"));
    assert!(browser.text(".lead").contains("cannot happen there"));
    assert_eq!(browser.value("document.querySelectorAll('.pair svg').length"), 2);
    browser.picture("compare");

    // A search, and its end.
    browser.open(&page("/run?scenario=v2-five-nodes"));
    browser.click("form.run button");
    browser.until("document.querySelector('#progress[data-running=true]')");
    browser.until("Number(document.querySelector('[data-field=states]').innerText) > 1000");
    browser.picture("search");
    browser.click("#progress button");
    browser.until("document.querySelector('#progress').innerText.includes('ended early: cancelled')");

    browser.open(&page("/tour"));
    browser.until("[...document.images].every(image => image.complete && image.naturalWidth > 0)");
    browser.picture("tour");
}
