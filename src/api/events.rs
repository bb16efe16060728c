//! `/v1/events`: the hive's events, raised, listed and streamed (server-sent events, WHATWG HTML 9.2).

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    access::Caller,
    extract::{Key, Params, RawJson, maybe_yes_or_no, parse},
    page::{Page, PageParams},
    problem::{Problem, Problems},
    work,
};
use crate::app::{
    Hive,
    events::EventQuery,
    job_types::{EventView, RaiseRequest},
};

/// A silent stream says so often that it is alive.
const ALIVE: Duration = Duration::from_secs(15);
type Answer<T> = Result<T, Problem>;

/// Raises an event: jobs that wait for its name run. With an `Idempotency-Key` a repeat within 24 h is answered the same.
#[utoipa::path(post, path = "/v1/events", tag = "events", request_body = RaiseRequest,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 201, body = EventView), Problems))]
pub async fn raise(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    key: Key,
    RawJson(body): RawJson,
) -> Answer<(StatusCode, Json<EventView>)> {
    let (key, request) = (key.of(caller.as_ref(), &body)?, parse::<RaiseRequest>(&body)?);
    let event = work::write(async move { hive.raise(request.name, request.data, key).await }).await?;
    Ok((StatusCode::CREATED, Json(event)))
}

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EventParams {
    /// Those after the event with this id; 0: all that are kept. A stream begins with those to come, unless this or
    /// `Last-Event-ID` says otherwise.
    after: Option<i64>,
    /// The last so many, and those to come in a stream; not with `after`.
    last: Option<usize>,
    /// Only of this name; `*` at its end stands for the rest.
    name: Option<String>,
    /// Whether a stream goes on with what comes; default true.
    #[serde(default, deserialize_with = "maybe_yes_or_no")]
    follow: Option<bool>,
}

/// The hive's events: a stream, or with `Accept: application/json` a page. The data of each in the stream is the
/// event as the page has it. `hive:gap` stands for events that are no longer kept.
#[utoipa::path(get, path = "/v1/events", tag = "events",
    params(EventParams, PageParams, ("Last-Event-ID" = Option<i64>, Header)),
    responses((status = 200, content((String = "text/event-stream"), (Page<EventView> = "application/json"))),
        Problems))]
pub async fn list(
    State(hive): State<Arc<Hive>>,
    headers: HeaderMap,
    Params(params): Params<EventParams>,
    Params(page): Params<PageParams>,
) -> Answer<Response> {
    let begin = match (params.after, params.last) {
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("?last", "last and after both say where to begin"));
        }
        (None, Some(last)) => Some(work::read(hive.before_last_events(params.name.clone(), last)).await??),
        (after, None) => after,
    };
    if wants_page(&headers) {
        let (cursor, read) = page.keys()?;
        let after = cursor.or(begin).unwrap_or(0);
        let batch = work::read(hive.events(after, params.name, read)).await??;
        let page = Page::of_keys(batch.events, read, |event| event.id);
        return Ok(Json(page).into_response());
    }
    let last = match headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?")) {
        None | Some("") => None,
        Some(id) => {
            let wrong = || Problem::invalid("Last-Event-ID", format!("{id:?} is not the id of an event"));
            Some(id.parse().map_err(|_| wrong())?)
        }
    };
    let query =
        EventQuery { after: last.or(begin), name: params.name, follow: params.follow.unwrap_or(true) };
    let events = work::read(hive.follow_events(query)).await??;
    let events = stream::unfold(events, async |mut events| {
        let event = events.recv().await?;
        Some((Ok::<_, Infallible>(sent(&event)), events))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response())
}

fn sent(event: &EventView) -> Event {
    let data = serde_json::to_string(event).unwrap_or_default();
    Event::default().id(event.id.to_string()).event(&event.name).data(data)
}

/// A page is for those who take JSON and no stream.
fn wants_page(headers: &HeaderMap) -> bool {
    let accepted: Vec<_> = headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok()).collect();
    let accepts = |kind| accepted.iter().any(|value| value.to_ascii_lowercase().contains(kind));
    accepts("application/json") && !accepts("text/event-stream")
}
