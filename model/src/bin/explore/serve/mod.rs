//! `explore serve`: the page.
//!
//! Everything is rendered here and read without a script; states are computed from the path in the address. The script only
//! saves page loads. Nothing is asked of any other host.

mod oops;
mod pages;
mod paths;
mod run;
mod story;
mod variant;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::{FormRejection, PathRejection};
use axum::extract::{Form, Path, Query, Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::Markup;
use redfence_model::trace::Trace;

use oops::Oops;
use paths::Paths;
use run::Runs;
use story::{Export, Story};

/// What all requests share.
struct Shared {
    paths: Paths,
    runs: Runs,
    files: Vec<File>,
}

/// A trace that somebody brings.
pub(crate) struct File {
    /// Where it is from.
    pub(crate) name: String,
    pub(crate) trace: Trace,
}

type Parameters = Query<HashMap<String, String>>;
type Answer = Result<Response, Oops>;

/// Only what this page itself brings is ever loaded.
const POLICY: &str = "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Serves until told to stop.
pub(crate) fn serve(port: u16, files: Vec<File>, stop: &Arc<AtomicBool>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("no runtime: {error}")),
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        crate::say(&format!("http://{address}/   (Ctrl-C ends it)"));
        for (index, file) in files.iter().enumerate() {
            crate::say(&format!("http://{address}/file/{}   {}", index + 1, file.name));
        }
        let shared = Arc::new(Shared { paths: Paths::default(), runs: Runs::default(), files });
        pages::tour::prepare(&shared.paths);
        // Nothing is lost when an answer is cut off: told to stop, it stops.
        tokio::select! {
            served = async { axum::serve(listener, router(shared)).await } => served,
            () = stopped(stop.clone()) => Ok(()),
        }
    });
    // Searches that are still under way end with the process.
    runtime.shutdown_background();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => failed(&format!(
            "port {port} of 127.0.0.1 is taken; choose another with `explore serve --port PORT`"
        )),
        Err(error) => failed(&format!("{address}: {error}")),
    }
}

fn failed(why: &str) -> ExitCode {
    eprintln!("explore: {why}");
    ExitCode::FAILURE
}

async fn stopped(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(matrix))
        .route("/tour", get(tour))
        .route("/trace/{scenario}/{property}", get(trace))
        .route("/trace/{scenario}/{property}/{export}", get(trace_export))
        .route("/path/{scenario}", get(path))
        .route("/path/{scenario}/{export}", get(path_export))
        .route("/file/{number}", get(file))
        .route("/compare", get(compare))
        .route("/run", get(run_page).post(run_start))
        .route("/run/progress", get(run_progress))
        .route("/run/cancel", post(run_cancel))
        .route("/style.css", get(|| asset("text/css", include_str!("style.css"))))
        .route("/app.js", get(|| asset("text/javascript", include_str!("app.js"))))
        .route("/favicon.ico", get(|| asset("image/svg+xml", include_str!("icon.svg"))))
        .fallback(nowhere)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn(guard))
        .with_state(shared)
}

async fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, format!("{kind}; charset=utf-8"))], text).into_response()
}

/// Only this machine, by its own name; and no other page may start anything here.
async fn guard(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let refused = !is_local(headers) || (request.method() != "GET" && is_foreign(headers));
    let mut response = match refused {
        true => {
            Oops::new(StatusCode::FORBIDDEN, "this page is only for 127.0.0.1 and localhost").into_response()
        }
        false => next.run(request).await,
    };
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

fn is_local(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    ["127.0.0.1", "localhost"].contains(&name)
}

fn is_foreign(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    text(ORIGIN)
        .is_some_and(|origin| Some(origin) != text(HOST).map(|host| format!("http://{host}")).as_deref())
}

async fn nowhere(request: Request) -> Oops {
    Oops::new(StatusCode::NOT_FOUND, format!("there is no page {}", request.uri().path()))
}

async fn wrong_method(request: Request) -> Oops {
    let (method, path) = (request.method(), request.uri().path());
    Oops::new(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not possible at {path}"))
}

/// Work that may take a while, off the threads that answer.
async fn work(job: impl FnOnce() -> Answer + Send + 'static) -> Answer {
    tokio::task::spawn_blocking(job).await.unwrap_or_else(|_| {
        Err(Oops::new(StatusCode::INTERNAL_SERVER_ERROR, "this page is broken; please report it"))
    })
}

fn page(markup: Markup) -> Answer {
    Ok(([(CONTENT_TYPE, "text/html; charset=utf-8")], markup.into_string()).into_response())
}

async fn matrix(State(shared): State<Arc<Shared>>) -> Answer {
    page(pages::matrix::page(&shared.runs.outcomes()))
}

async fn tour() -> Answer {
    page(pages::tour::page())
}

async fn trace(
    State(shared): State<Arc<Shared>>,
    place: Result<Path<(String, String)>, PathRejection>,
    Query(query): Parameters,
) -> Answer {
    let Path((scenario, property)) = place?;
    work(move || {
        let at = story::at(&query)?;
        let story = Story::shortest(&shared.paths, &scenario, &property, paths::A_MOMENT)?;
        page(pages::story::page(&story, at, None)?)
    })
    .await
}

async fn trace_export(
    State(shared): State<Arc<Shared>>,
    place: Result<Path<(String, String, String)>, PathRejection>,
) -> Answer {
    let Path((scenario, property, export)) = place?;
    work(move || {
        let export = Export::named(&export)?;
        let story =
            paths::patiently(|| Story::shortest(&shared.paths, &scenario, &property, paths::A_MOMENT))?;
        pages::export::answer(&story, export)
    })
    .await
}

async fn path(
    State(shared): State<Arc<Shared>>,
    place: Result<Path<String>, PathRejection>,
    Query(query): Parameters,
) -> Answer {
    let Path(scenario) = place?;
    work(move || {
        let story = Story::chosen(&scenario, &query)?;
        page(pages::story::page(&story, story::at(&query)?, story.origin(&shared.paths).as_ref())?)
    })
    .await
}

async fn path_export(
    place: Result<Path<(String, String)>, PathRejection>,
    Query(query): Parameters,
) -> Answer {
    let Path((scenario, export)) = place?;
    work(move || {
        let export = Export::named(&export)?;
        let story = paths::patiently(|| Story::chosen(&scenario, &query))?;
        pages::export::answer(&story, export)
    })
    .await
}

async fn file(
    State(shared): State<Arc<Shared>>,
    place: Result<Path<usize>, PathRejection>,
    Query(query): Parameters,
) -> Answer {
    let Path(number) = place?;
    page(pages::file::page(&shared.files, number, story::at(&query)?)?)
}

async fn compare(State(shared): State<Arc<Shared>>, Query(query): Parameters) -> Answer {
    work(move || page(pages::compare::page(&shared.paths, &query)?)).await
}

async fn run_page(State(shared): State<Arc<Shared>>, Query(query): Parameters) -> Answer {
    let chosen = query.get("scenario").map(|name| story::scenario(name)).transpose()?;
    page(pages::run::page(&shared.runs.look(), chosen.as_ref()))
}

async fn run_start(
    State(shared): State<Arc<Shared>>,
    form: Result<Form<HashMap<String, String>>, FormRejection>,
) -> Answer {
    let Form(form) = form?;
    shared.runs.start(&form)?;
    Ok(Redirect::to("/run").into_response())
}

async fn run_progress(State(shared): State<Arc<Shared>>) -> Response {
    axum::Json(shared.runs.look()).into_response()
}

async fn run_cancel(State(shared): State<Arc<Shared>>) -> Redirect {
    shared.runs.cancel();
    Redirect::to("/run")
}
