//! What is said when an address leads nowhere.

use axum::extract::rejection::{FormRejection, PathRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::html;
use redfence_model::trace::Error;

use super::pages;

/// An error page.
#[derive(Debug)]
pub(super) struct Oops {
    status: StatusCode,
    text: String,
    /// Names like the one that does not exist, with their addresses.
    near: Vec<(String, String)>,
    /// The page will be there soon: it loads itself again.
    again: bool,
}

impl Oops {
    /// With this status and this text.
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), near: Vec::new(), again: false }
    }

    /// Not now, but soon.
    pub(super) fn soon(status: StatusCode, text: impl Into<String>) -> Self {
        Self { again: true, ..Self::new(status, text) }
    }

    /// Whether it is worth asking again.
    pub(super) fn is_soon(&self) -> bool {
        self.again
    }

    /// Suggests other pages.
    pub(super) fn near(self, near: Vec<(String, String)>) -> Self {
        Self { near, ..self }
    }
}

impl From<Error> for Oops {
    fn from(error: Error) -> Self {
        match error {
            Error::Impossible { .. } => Self::new(StatusCode::NOT_FOUND, error.to_string()),
            Error::Busy => Self::soon(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            Error::Ended => Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        }
    }
}

impl From<PathRejection> for Oops {
    fn from(rejection: PathRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, rejection.body_text())
    }
}

impl From<FormRejection> for Oops {
    fn from(rejection: FormRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, rejection.body_text())
    }
}

impl IntoResponse for Oops {
    fn into_response(self) -> Response {
        let title = if self.again { "One moment" } else { "Not here" };
        let body = html! {
            @if self.again { meta http-equiv="refresh" content="1"; }
            h1 { (title) }
            p class="oops" role=[self.again.then_some("status")] { (self.text) }
            @if !self.near.is_empty() {
                p { "Did you mean" }
                ul { @for (name, href) in &self.near { li { a href=(href) { (name) } } } }
            }
            p { a href="/" { "All scenarios" } }
        };
        let page = pages::shell(title, "", &body).into_string();
        (self.status, [(axum::http::header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
    }
}
