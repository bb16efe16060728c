//! The HTTP edge (contract.md 5): the operator's doors and each agent's.
//!
//! Handlers parse, call one use case of `app`, and shape the answer; they decide nothing. Every route is
//! registered with `routes!`, so that the description at `/openapi.json` is exact.

mod access;
mod agents;
mod attach;
mod docs;
mod documents;
mod events;
mod extract;
mod faces;
mod guard;
mod halts;
mod hive;
mod jobs;
mod linger;
mod mail;
mod mcp;
mod metrics;
mod observe;
mod page;
mod problem;
mod rate;
mod run_tools;
mod runs;
mod secrets;
mod serve;
mod skills;
mod tasks;
#[cfg(test)]
pub(crate) mod tests;
mod tools;
mod work;

use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::DefaultBodyLimit,
    http::{StatusCode, Uri},
    middleware::{from_fn, from_fn_with_state},
};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouterExt},
    routes,
};

pub use access::Access;
pub use guard::{Auth, TcpAuth};
pub use page::Page;
pub use problem::{FieldFault, Problem};
pub use secrets::SecretSet;
pub use serve::{Doors, serve_tcp, serve_unix};
pub use skills::Changes;
pub use tools::ToolPage;

use crate::app::Hive;

/// Bytes of a body.
const MAX_BODY: usize = 1024 * 1024;
/// Bytes of an `exec` body, whose standard input alone may have 1 MiB and grows when written as JSON.
const MAX_EXEC_BODY: usize = 2 * 1024 * 1024;

/// For the operator: everything, once `auth` is satisfied.
pub fn operator_router(hive: Arc<Hive>, auth: Auth) -> Router {
    outside(inside(hive).layer(from_fn_with_state(Arc::new(auth), guard::admit)))
}

/// For the agents' doors: what [`Access::Agent`] in a request's extensions may do. Serve it with [`Doors`].
fn doors_router(hive: Arc<Hive>) -> Router {
    let rates = Arc::new(rate::Rates::new(hive.clone()));
    outside(inside(hive).layer(from_fn_with_state(rates, rate::limit)))
}

fn routes() -> OpenApiRouter<Arc<Hive>> {
    OpenApiRouter::new()
        .routes(routes!(agents::list))
        .routes(routes!(agents::show))
        .routes(routes!(agents::start))
        .routes(routes!(agents::stop))
        .routes(routes!(agents::restart))
        .routes(routes!(agents::prompt))
        .routes(routes!(agents::logs))
        .routes(routes!(agents::soul, agents::set_soul))
        .routes(routes!(agents::exec).layer(DefaultBodyLimit::max(MAX_EXEC_BODY)))
        .routes(routes!(attach::attach))
        .routes(routes!(skills::resolve_agent))
        .routes(routes!(skills::list, skills::publish::register))
        .routes(routes!(skills::show, skills::judge::remove))
        .routes(routes!(skills::publish::add_version))
        .routes(routes!(skills::versions::show))
        .routes(routes!(skills::versions::file))
        .routes(routes!(skills::versions::archive))
        .routes(routes!(skills::versions::diff))
        .routes(routes!(skills::versions::review))
        .routes(routes!(skills::judge::yank))
        .routes(routes!(skills::judge::unyank))
        .routes(routes!(skills::judge::deprecate))
        .routes(routes!(skills::judge::approve))
        .routes(routes!(skills::judge::reject))
        .routes(routes!(skills::judge::enable))
        .routes(routes!(skills::judge::disable))
        .routes(routes!(skills::judge::rollback))
        .routes(routes!(skills::resolve))
        .routes(routes!(skills::update))
        .routes(routes!(documents::list, documents::create))
        .routes(routes!(documents::show, documents::update, documents::remove))
        .routes(routes!(documents::enable))
        .routes(routes!(documents::disable))
        .routes(routes!(documents::tools))
        .routes(routes!(documents::call))
        .routes(routes!(secrets::list))
        .routes(routes!(secrets::set, secrets::remove))
        .routes(routes!(jobs::list, jobs::create))
        .routes(routes!(jobs::show, jobs::update, jobs::remove))
        .routes(routes!(jobs::run))
        .routes(routes!(jobs::pause))
        .routes(routes!(jobs::resume))
        .routes(routes!(jobs::next))
        .routes(routes!(jobs::preview))
        .routes(routes!(runs::list))
        .routes(routes!(runs::show))
        .routes(routes!(runs::output))
        .routes(routes!(runs::cancel))
        .routes(routes!(run_tools::list))
        .routes(routes!(run_tools::call))
        .routes(routes!(run_tools::act))
        .routes(routes!(mcp::send, mcp::listen, mcp::end))
        .routes(routes!(mcp::of_run))
        .routes(routes!(tools::list))
        .routes(routes!(tools::of_agent))
        .routes(routes!(tools::call))
        .routes(routes!(tasks::list, tasks::queue))
        .routes(routes!(tasks::cancel))
        .routes(routes!(tasks::show))
        .routes(routes!(tasks::facts))
        .routes(routes!(mail::list))
        .routes(routes!(mail::send))
        .routes(routes!(mail::show))
        .routes(routes!(mail::attachment))
        .routes(routes!(mail::release))
        .routes(routes!(halts::show, halts::halt))
        .routes(routes!(halts::resume))
        .routes(routes!(events::list, events::raise))
        .routes(routes!(hive::show))
        .routes(routes!(hive::doctor))
        .routes(routes!(hive::backup))
        .routes(routes!(hive::shutdown))
        .routes(routes!(hive::healthz))
        .routes(routes!(hive::readyz))
        .routes(routes!(hive::metrics))
        .routes(routes!(faces::claw::search))
        .routes(routes!(faces::claw::list))
        .routes(routes!(faces::claw::show))
        .routes(routes!(faces::claw::versions))
        .routes(routes!(faces::claw::show_version))
        .routes(routes!(faces::claw::file))
        .routes(routes!(faces::claw::resolve))
        .routes(routes!(faces::claw::download))
        .routes(routes!(faces::claw::whoami))
        .routes(routes!(faces::claw::place))
        .routes(routes!(faces::discovery::index))
        .routes(routes!(faces::discovery::text))
        .routes(routes!(faces::discovery::archive))
        .routes(routes!(docs::openapi))
        .routes(routes!(docs::docs))
}

fn inside(hive: Arc<Hive>) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(Extension(Arc::<mcp::Sessions>::default()))
        .layer(from_fn(observe::refuse_forms))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(from_fn(access::enforce))
        .with_state(hive)
}

fn outside(router: Router) -> Router {
    router
        .layer(CatchPanicLayer::custom(observe::panicked))
        .layer(from_fn(faces::in_plain_words))
        .layer(from_fn(observe::observe))
}

async fn no_route(uri: Uri) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, format!("there is no route {}; see /docs", uri.path()))
}

async fn no_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this route does not know the method; see the Allow header")
}
