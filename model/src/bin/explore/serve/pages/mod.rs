//! The pages.

pub(super) mod compare;
pub(super) mod export;
pub(super) mod file;
pub(super) mod matrix;
pub(super) mod run;
pub(super) mod story;
pub(super) mod tour;

use maud::{DOCTYPE, Markup, html};

/// What is around every page; `here` is the address of the part of the page it belongs to.
pub(super) fn shell(title: &str, here: &str, main: &Markup) -> Markup {
    let parts = [("/", "Verdicts"), ("/tour", "Tour"), ("/run", "Search")];
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " \u{b7} redfence explore" }
                link rel="icon" href="/favicon.ico";
                link rel="stylesheet" href="/style.css";
                script src="/app.js" defer {}
            }
            body {
                a class="skip" href="#main" { "Skip to the content" }
                header class="top" {
                    strong { "redfence explore" }
                    nav aria-label="Pages" {
                        @for (href, name) in parts {
                            a href=(href) aria-current=[(href == here).then_some("page")] { (name) }
                        }
                    }
                }
                main id="main" { (main) }
            }
        }
    }
}
