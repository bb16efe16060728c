//! Making and changing documents: a copy is edited, laid into staging, and published as the next version.

use std::{future::Future, sync::Arc};

use semver::Version;

use super::{
    DocumentView, Enabled,
    folder::Home,
    invalid,
    snapshot::{Snapshot, next_version, owner_of},
};
use crate::{
    app::{
        Result,
        hive::Hive,
        jobs::OnceKey,
        skills::{Only, PublishOptions, Published},
        types::AppError,
    },
    db::{self, idempotency::Known},
    ids::{AgentId, Digest, SkillId},
    kill_point,
    registry::index::{Owner, Trust},
    skill::{
        document::{Create, Edit, Text},
        source::SKILL_MD,
    },
};

/// How often an edit is made anew because others came before it.
const ATTEMPTS: usize = 50;

/// A version to be published.
struct Draft<'a> {
    slug: &'a SkillId,
    text: &'a Text,
    version: Version,
    /// Its other files are those of this version.
    base: Option<Digest>,
    owner: Owner,
    trust: Option<Trust>,
    origin: String,
    only: Only,
    key: Option<OnceKey>,
}

impl Hive {
    /// Makes a document.
    ///
    /// # Errors
    /// There is a skill of that name, its file breaks a limit, or it cannot be stored.
    pub async fn create_document(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        new: Create,
        key: Option<OnceKey>,
    ) -> Result<DocumentView> {
        let Create { slug, text } = new;
        if self.answered(key.as_ref()).await? {
            return self.document(caller, &slug).await;
        }
        let id = slug.clone();
        let (entry, retired) = self
            .db
            .read(move |conn| {
                Ok::<_, AppError>((db::skills::entry(conn, &id)?, db::skills::retired(conn, &id)?))
            })
            .await?;
        if entry.is_some() {
            return Err(AppError::Conflict(format!(
                "there is a skill {slug} already: update it, or choose another name"
            )));
        }
        let version = next_version(retired.iter().map(|(v, _)| v));
        let owner = owner_of(caller);
        let home = self.home(&owner, &slug, None, &version)?;
        let file = text.to_skill_md(&slug, &version);
        let prepared = home.map(|home| home.prepare(file.as_bytes())).transpose()?;
        let origin = prepared.as_ref().map_or_else(|| "document".to_owned(), |p| p.origin().to_owned());
        let (text, only, trust) = (&text, Only::NewSkill, None);
        self.lay(Draft { slug: &slug, text, version, base: None, owner, trust, origin, only, key }).await?;
        kill_point!("document.published");
        if let Some(prepared) = prepared {
            prepared.commit(&slug)?;
        }
        kill_point!("document.filed");
        self.document(caller, &slug).await
    }

    /// Changes a document. `seen`: only when it still has that version.
    ///
    /// # Errors
    /// There is none that the caller may see, it belongs to somebody else, it has another version, the edit cannot be
    /// made as asked, or it cannot be stored.
    pub async fn update_document(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        slug: &SkillId,
        edit: &Edit,
        seen: Option<u64>,
        key: Option<OnceKey>,
    ) -> Result<DocumentView> {
        if self.answered(key.as_ref()).await? {
            return self.document(caller, slug).await;
        }
        for _ in 0..ATTEMPTS {
            let base = self.snapshot(caller, slug).await?;
            base.changeable(caller)?;
            base.matches(seen)?;
            let text = base.text.edited(edit).map_err(invalid)?;
            if text == base.text {
                return Ok(base.view());
            }
            if self.take_in(&base).await? {
                continue;
            }
            match self.publish_edit(caller, &base, &text, key.clone()).await {
                Ok(published) => return self.edited(caller, &base, text, &published).await,
                Err(e @ AppError::Conflict(_)) if self.snapshot(caller, slug).await?.next == base.next => {
                    return Err(e);
                }
                // Somebody else made that version first.
                Err(AppError::Conflict(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Err(AppError::Conflict(format!("the document {slug} is being changed all the time: try again later")))
    }

    async fn publish_edit(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        base: &Snapshot,
        text: &Text,
        key: Option<OnceKey>,
    ) -> Result<Published> {
        let (slug, owner) = (&base.entry.id, base.entry.owner.clone());
        let home = self.home(&owner, slug, Some(&base.origin), &base.next)?;
        let file = text.to_skill_md(slug, &base.next);
        let prepared = home.map(|home| home.prepare(file.as_bytes())).transpose()?;
        let origin = prepared.as_ref().map_or_else(|| "document".to_owned(), |p| p.origin().to_owned());
        // The operator's change of what was approved needs no further approval.
        let trust = (caller.is_none() && base.version.trust == Trust::Approved).then_some(Trust::Approved);
        let draft = Draft {
            slug,
            text,
            version: base.next.clone(),
            base: Some(base.version.digest),
            owner,
            trust,
            origin,
            only: Only::NewVersion,
            key,
        };
        kill_point!("document.prepared");
        let published = self.lay(draft).await?;
        kill_point!("document.published");
        if let Some(prepared) = prepared {
            self.keep_newest(prepared.commit(slug)?, slug, &base.next).await?;
        }
        kill_point!("document.filed");
        Ok(published)
    }

    /// Of edits at the same time the last one stays in the folder, whichever was written last.
    async fn keep_newest(&self, home: Home, slug: &SkillId, written: &Version) -> Result<()> {
        let mut written = written.clone();
        loop {
            let now = self.snapshot(None, slug).await?;
            if now.version.version == written {
                return Ok(());
            }
            home.clone().prepare(&now.file)?.commit(slug)?;
            written = now.version.version;
        }
    }

    /// What an edit made, also when others went on from it.
    async fn edited(
        &self,
        caller: Option<&AgentId>,
        base: &Snapshot,
        text: Text,
        published: &Published,
    ) -> Result<DocumentView> {
        let now = self.snapshot(caller, &base.entry.id).await?;
        Ok(DocumentView {
            version: base.counted.version + 1,
            skill_version: published.version.clone(),
            trust: published.trust.clone(),
            title: text.title,
            description: text.description,
            tags: text.tags,
            content: Some(text.content),
            ..now.view()
        })
    }

    /// Lays the files down and publishes them.
    fn lay(self: &Arc<Self>, draft: Draft<'_>) -> impl Future<Output = Result<Published>> + Send {
        let (hive, slug) = (self.clone(), draft.slug.clone());
        let file = draft.text.to_skill_md(&slug, &draft.version);
        let Draft { version, base, owner, trust, origin, only, key, .. } = draft;
        async move {
            let (store, limits, id) = (hive.store.clone(), hive.world().config.registry.limits, slug.clone());
            let staging = move || {
                let mut files: Vec<(String, bool, Vec<u8>)> =
                    vec![(SKILL_MD.into(), false, file.into_bytes())];
                if let Some(base) = base {
                    for (path, info) in store.source(&base)?.files {
                        if path != SKILL_MD {
                            let bytes = store.read(&base, &path)?.unwrap_or_default();
                            files.push((path, info.executable, bytes));
                        }
                    }
                }
                let files = files.iter().map(|(path, exec, bytes)| (path.as_str(), *exec, bytes.as_slice()));
                Ok::<_, AppError>(store.stage_files(id.as_str(), files, &limits)?)
            };
            let staged = tokio::task::spawn_blocking(staging)
                .await
                .map_err(|e| AppError::Internal(format!("laying down {slug} failed: {e}")))??;
            let how = PublishOptions {
                source: origin,
                only: Some(only),
                expect_id: Some(slug),
                version: Some(version),
                trust,
                key,
                ..PublishOptions::default()
            };
            match &owner {
                Owner::Agent(agent) => hive.publish_own(agent, staged, how).await,
                _ => hive.publish(&owner, staged, how).await,
            }
        }
    }

    /// Whether a request was answered before under its key.
    async fn answered(&self, key: Option<&OnceKey>) -> Result<bool> {
        let Some(key) = key.cloned() else { return Ok(false) };
        let now = self.now();
        match self.db.read(move |conn| db::idempotency::find(conn, &key, now)).await? {
            None => Ok(false),
            Some(Known::Answered(_)) => Ok(true),
            Some(Known::OtherRequest) => {
                let detail = "this Idempotency-Key was used with another request: take a new one".to_owned();
                Err(AppError::Invalid { errors: vec![("Idempotency-Key".into(), detail.clone())], detail })
            }
        }
    }

    /// Enables or disables a document; its version stays.
    ///
    /// # Errors
    /// There is none that the caller may see, it belongs to somebody else, or the database fails.
    pub async fn set_document_enabled(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        slug: &SkillId,
        enabled: bool,
    ) -> Result<Enabled> {
        let found = self.snapshot(caller, slug).await?;
        // To disable what is built in is the operator's right.
        if caller.is_some() {
            found.changeable(caller)?;
        }
        self.set_skill_enabled(caller, slug, enabled).await?;
        Ok(Enabled { name: slug.to_string(), enabled })
    }

    /// Where an operator's document is also written.
    fn home(
        &self,
        owner: &Owner,
        slug: &SkillId,
        origin: Option<&str>,
        version: &Version,
    ) -> Result<Option<Home>> {
        match owner {
            Owner::Operator => Home::find(self, slug, origin, version),
            Owner::BuiltIn | Owner::Agent(_) => Ok(None),
        }
    }
}
