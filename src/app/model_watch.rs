//! The model's endpoint, watched (systems.md A23): asked every minute, told once when it goes and once when it is back.
//! What was told last outlives the supervisor.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::hive::Hive;
use crate::{
    config::model::ModelEndpoint,
    db::{self, DbError},
    notify::{Notice, NoticeKind, probe::probe},
};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(60);
/// An answer is waited for so long.
const PATIENCE: Duration = Duration::from_secs(3);
/// Where what was told last is kept.
const KEY: &str = "model_endpoint";
/// What a change is told as.
const EVENT: &str = "hive:model";

/// How the endpoint was when it was told of last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    url: String,
    there: bool,
}

/// Watches until the hive stops.
pub async fn run(hive: Arc<Hive>) {
    loop {
        if let Some(endpoint) = &hive.world().config.model
            && let Err(e) = look(&hive, endpoint).await
        {
            tracing::warn!(error = %e, "cannot keep how the model endpoint is");
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = hive.stopping.cancelled() => return,
        }
    }
}

/// Asks, and tells a change. An endpoint that is there when it is first asked is no news.
async fn look(hive: &Arc<Hive>, endpoint: &ModelEndpoint) -> Result<(), DbError> {
    let config = hive.world().config.clone();
    let bundle = config.ca_bundle.as_ref().map(|bundle| hive.paths.resolve(bundle));
    let answer = probe(&config.notify.allow, bundle, &endpoint.url, PATIENCE).await;
    let before = hive.db.read(|conn| db::meta::get(conn, KEY)).await?;
    let before = before.and_then(|text| serde_json::from_str::<Known>(&text).ok());
    let before = before.filter(|known| known.url == endpoint.url);
    let known = Known { url: endpoint.url.clone(), there: answer.is_ok() };
    if before.as_ref() == Some(&known) {
        return Ok(());
    }
    let news = before.is_some() || !known.there;
    let (status, title, text) = match &answer {
        Ok(()) => ("up", format!("{}: the model endpoint is back", hive.name), String::new()),
        Err(why) => ("down", format!("{}: the model endpoint does not answer", hive.name), why.clone()),
    };
    let now = hive.now();
    let notice = Notice::of_hive(NoticeKind::HiveModel, hive.name.as_str(), status, title, text.clone(), now);
    let data = json!({"status": status, "url": endpoint.url, "error": answer.err()});
    let (kept, targets) = (serde_json::to_string(&known).unwrap_or_default(), hive.targets());
    hive.db
        .write(move |tx| {
            db::meta::set(tx, KEY, &kept)?;
            if news {
                db::events::append(tx, now, EVENT, &data)?;
                db::outbox::enqueue_all(tx, &targets, &notice, now)?;
            }
            Ok(())
        })
        .await
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::api::tests::setup::hive_with;

    /// Answers every request so until it is dropped.
    fn serve(listener: TcpListener, status: &'static str) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut asked = vec![0; 4096];
                let n = stream.read(&mut asked).await.unwrap();
                assert!(
                    asked[..n].starts_with(b"GET /api/tags "),
                    "{}",
                    String::from_utf8_lossy(&asked[..n])
                );
                let answer =
                    format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        })
    }

    async fn told(hive: &Hive) -> Vec<String> {
        let events = hive.db.read(|conn| db::events::named(conn, 0, Some(EVENT), 100)).await.unwrap();
        events.iter().map(|event| event.data["status"].as_str().unwrap().to_owned()).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_alert_tells_that_the_endpoint_went_and_one_that_it_is_back() {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = format!(
            "[hive]\nname = \"demo\"\n[model]\nendpoint = \"http://{address}\"\n[notify]\nallow = [\"127.0.0.1\"]\n\
             [[notify.webhook]]\nurl = \"https://hooks.example.com/x\"\n[agents.a]\n"
        );
        let hive = hive_with(dir.path(), &config).await;
        let endpoint = hive.world().config.model.clone().unwrap();
        let server = serve(listener, "200 OK");
        for _ in 0..2 {
            look(&hive, &endpoint).await.unwrap();
        }
        assert_eq!(told(&hive).await, Vec::<String>::new(), "there from the first is no news");
        server.abort();
        server.await.unwrap_err();
        for _ in 0..3 {
            look(&hive, &endpoint).await.unwrap();
        }
        assert_eq!(told(&hive).await, ["down"]);
        let server = serve(TcpListener::bind(address).await.unwrap(), "500 Internal Server Error");
        look(&hive, &endpoint).await.unwrap();
        assert_eq!(told(&hive).await, ["down"], "an error is no answer");
        server.abort();
        server.await.unwrap_err();
        let _server = serve(TcpListener::bind(address).await.unwrap(), "200 OK");
        for _ in 0..2 {
            look(&hive, &endpoint).await.unwrap();
        }
        assert_eq!(told(&hive).await, ["down", "up"]);
        assert_eq!(hive.db.read(db::outbox::newest).await.unwrap(), 2, "one notice each");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_address_that_is_not_allowed_is_not_asked_and_the_reason_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let config = "[hive]\nname = \"demo\"\n[model]\nendpoint = \"http://127.0.0.1:1/v1/\"\npath = \"/models\"\n[agents.a]\n";
        let hive = hive_with(dir.path(), config).await;
        let endpoint = hive.world().config.model.clone().unwrap();
        assert_eq!(endpoint.url, "http://127.0.0.1:1/v1/models");
        look(&hive, &endpoint).await.unwrap();
        let events = hive.db.read(|conn| db::events::named(conn, 0, Some(EVENT), 1)).await.unwrap();
        assert!(events[0].data["error"].as_str().unwrap().contains("allow"), "{}", events[0].data);
    }
}
