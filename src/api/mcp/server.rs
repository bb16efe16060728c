//! What the MCP server answers: tools, and the agent's skills as resources (SEP-2640).
//!
//! One value serves a request, or a session; who asks is read from each request.
#![expect(deprecated, reason = "clients up to 2025-11-25 set a level of log messages")]

use std::{sync::Arc, time::Duration};

use axum::http::request::Parts;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode,
        GetSkillRequestParams, GetSkillResult, Implementation, ListResourcesResult, ListSkillsResult,
        ListToolsResult, PaginatedRequestParams, ReadResourceDirectoryRequestParams,
        ReadResourceDirectoryResult, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
        ServerConfig, SetLevelRequestParams, SubscriptionFilter, Tool,
    },
    service::{NotificationContext, Peer, RequestContext, SubscriptionContext},
};
use serde_json::Map;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    names,
    relay::{self, Level},
    results,
    sessions::Who,
    skills,
};
use crate::{
    app::{Hive, tools::types::ToolReply, types::AppError},
    ids::AgentId,
    mcp::Line,
    tools,
};

/// Items of one page.
const PAGE: usize = 1_000;
/// What comes within this time is told once.
const SETTLE: Duration = Duration::from_millis(200);

/// Cancelled when the client that sent a request has gone.
#[derive(Clone)]
pub(super) struct Gone(pub CancellationToken);

/// See the module.
#[derive(Clone)]
pub(super) struct Server {
    hive: Arc<Hive>,
    of_run: bool,
    level: Arc<Level>,
}

type Context = RequestContext<RoleServer>;
type Answer<T> = Result<T, ErrorData>;

fn who(ctx: &Context) -> Answer<Who> {
    let parts = ctx.extensions.get::<Parts>();
    let who = parts.and_then(|parts| parts.extensions.get::<Who>()).cloned();
    who.ok_or_else(|| ErrorData::invalid_request("nobody vouches for this request", None))
}

/// Whose skills are asked for: a run's endpoint has tools alone.
fn whose_skills(ctx: &Context) -> Answer<AgentId> {
    let who = who(ctx)?;
    if who.run.is_some() {
        let why = "a run's own endpoint has tools and no resources";
        return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None));
    }
    Ok(who.agent)
}

/// What could not be read or found, for lists and resources.
pub(super) fn refused(error: &AppError) -> ErrorData {
    match error {
        AppError::Unavailable(_) | AppError::Internal(_) => {
            tracing::warn!(%error, "an MCP request failed");
            ErrorData::internal_error("the supervisor failed; its log tells why", None)
        }
        told => ErrorData::invalid_params(told.to_string(), None),
    }
}

/// One page of a list, and where the next begins.
fn page<T>(all: Vec<T>, params: Option<PaginatedRequestParams>) -> Answer<(Vec<T>, Option<String>)> {
    let at: usize = match params.and_then(|params| params.cursor) {
        None => 0,
        Some(cursor) => cursor
            .parse()
            .map_err(|_| ErrorData::invalid_params(format!("{cursor:?} is no cursor of this list"), None))?,
    };
    let next = at.checked_add(PAGE).filter(|next| *next < all.len()).map(|next| next.to_string());
    Ok((all.into_iter().skip(at).take(PAGE).collect(), next))
}

impl Server {
    pub(super) fn new(hive: Arc<Hive>, of_run: bool) -> Self {
        Self { hive, of_run, level: Arc::default() }
    }

    async fn tools(&self, who: &Who) -> Result<Vec<Tool>, AppError> {
        if let Some(run) = who.run {
            let tools = self.hive.run_tools(who.caller.as_ref(), run).await?;
            let there = tools.into_iter().filter(|tool| tool.missing.is_none());
            let shown = |tool: crate::app::job_types::RunTool| {
                let schema = results::schema(tool.input_schema);
                let said = tool.description.unwrap_or_else(|| "A tool of the agent.".to_owned());
                Tool::new(names::shown(&tool.name), said, schema)
            };
            return Ok(there.map(shown).collect());
        }
        let views = self.hive.tool_views(&who.agent).await?;
        let hinted = views.into_iter().map(|view| {
            let hints = self.hive.tool_hints(&who.agent, &view);
            results::tool(view, hints)
        });
        Ok(hinted.collect())
    }

    /// The tool's own name, where the one that it was shown under is another.
    async fn own_name(&self, who: &Who, name: String) -> Result<String, AppError> {
        if !names::may_be_changed(&name) {
            return Ok(name);
        }
        let all: Vec<String> = match who.run {
            Some(run) => {
                let tools = self.hive.run_tools(who.caller.as_ref(), run).await?;
                tools.into_iter().map(|tool| tool.name).collect()
            }
            None => {
                let views = self.hive.tool_views(&who.agent).await?;
                views.into_iter().map(|view| view.name).collect()
            }
        };
        Ok(all.into_iter().find(|own| names::shown(own) == name).unwrap_or(name))
    }

    async fn call(
        &self,
        who: &Who,
        params: CallToolRequestParams,
        line: Option<Line>,
    ) -> Answer<CallToolResult> {
        let name = match self.own_name(who, params.name.into_owned()).await {
            Ok(name) => name,
            Err(error) => return Ok(results::failed(error.to_string())),
        };
        let args = params.arguments.unwrap_or_default();
        match self.made(who, &name, args, line).await {
            Ok(reply) => Ok(results::result(reply)),
            Err(error) => match self.unknown(who, &name, &error).await {
                Some(why) => Err(ErrorData::invalid_params(why, None)),
                None => Ok(results::failed(told(&error))),
            },
        }
    }

    async fn made(
        &self,
        who: &Who,
        name: &str,
        args: Map<String, serde_json::Value>,
        line: Option<Line>,
    ) -> Result<ToolReply, AppError> {
        match who.run {
            Some(run) => {
                let called = self.hive.call_run_tool(who.caller.as_ref(), run, name, &args).await?;
                Ok(called.reply)
            }
            None => self.hive.call_tool_over(who.caller.as_ref(), &who.agent, name, args, line).await,
        }
    }

    /// Why there is no such tool, when that is what went wrong.
    async fn unknown(&self, who: &Who, name: &str, error: &AppError) -> Option<String> {
        match (error, who.run) {
            (AppError::Forbidden(why), Some(_)) => Some(why.clone()),
            (AppError::NotFound(_), _) => {
                let known = self.hive.tools(&who.agent).await.ok()?;
                tools::find(&known, name).err()
            }
            _ => None,
        }
    }

    /// Tells a client of each change until it is gone.
    async fn tell(mut changes: watch::Receiver<u64>, peer: Peer<RoleServer>) {
        while changes.changed().await.is_ok() {
            tokio::time::sleep(SETTLE).await;
            changes.borrow_and_update();
            let told = peer.notify_tool_list_changed().await.is_ok();
            if !told || peer.notify_resource_list_changed().await.is_err() {
                return;
            }
        }
    }
}

/// With every fault, so that a model can mend its arguments.
fn told(error: &AppError) -> String {
    std::iter::once(error.to_string()).chain(error.faults()).collect::<Vec<_>>().join("\n")
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let about = Implementation::new("skep", env!("CARGO_PKG_VERSION"));
        if self.of_run {
            let tools = ServerCapabilities::builder().enable_tools().build();
            return ServerConfig::new(tools).with_server_info(about).with_instructions(
                "The tools of one run: what its job requires, and no more calls than its max_steps.",
            );
        }
        let all = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_logging()
            .enable_skills_with_directory_read()
            .build();
        ServerConfig::new(all)
            .with_server_info(about)
            .with_instructions("The tools and skills of an agent. get_tool_catalog lists the tools in short.")
    }

    async fn set_level(&self, params: SetLevelRequestParams, ctx: Context) -> Answer<()> {
        let newest = ctx.protocol_version().is_some_and(|version| !version.has_initialize());
        if self.of_run || newest {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "nothing is logged here", None));
        }
        self.level.set(params.level);
        Ok(())
    }

    async fn list_tools(
        &self,
        params: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Answer<ListToolsResult> {
        let tools = self.tools(&who(&ctx)?).await.map_err(|e| refused(&e))?;
        let (tools, next) = page(tools, params)?;
        let mut list =
            ListToolsResult::with_all_items(tools).with_ttl_ms(0).with_cache_scope(CacheScope::Private);
        list.next_cursor = next;
        Ok(list)
    }

    async fn call_tool(&self, params: CallToolRequestParams, ctx: Context) -> Answer<CallToolResponse> {
        let who = who(&ctx)?;
        // The clients of a run's endpoint have no stream to hear on.
        let (line, heard) = match self.of_run {
            true => (None, None),
            false => Some(relay::open(&ctx, &self.level)).unzip(),
        };
        Ok(relay::attend(&ctx, heard, self.call(&who, params, line)).await??.into())
    }

    async fn list_resources(
        &self,
        params: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Answer<ListResourcesResult> {
        let agent = whose_skills(&ctx)?;
        let (items, next) = page(skills::resources(&self.hive, &agent).await?, params)?;
        let mut list =
            ListResourcesResult::with_all_items(items).with_ttl_ms(0).with_cache_scope(CacheScope::Private);
        list.next_cursor = next;
        Ok(list)
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        ctx: Context,
    ) -> Answer<ReadResourceResponse> {
        skills::read(&self.hive, &whose_skills(&ctx)?, params.uri).await.map(Into::into)
    }

    async fn list_skills(
        &self,
        params: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Answer<ListSkillsResult> {
        let agent = whose_skills(&ctx)?;
        let (items, next) = page(skills::list(&self.hive, &agent).await?, params)?;
        let mut list =
            ListSkillsResult::with_all_items(items).with_ttl_ms(0).with_cache_scope(CacheScope::Private);
        list.next_cursor = next;
        Ok(list)
    }

    async fn get_skill(&self, params: GetSkillRequestParams, ctx: Context) -> Answer<GetSkillResult> {
        let skills = skills::list(&self.hive, &whose_skills(&ctx)?).await?;
        let found = skills.into_iter().find(|skill| skill.uri == params.uri);
        found
            .map(GetSkillResult::new)
            .ok_or_else(|| ErrorData::invalid_params(format!("the agent has no skill {}", params.uri), None))
    }

    async fn read_resource_directory(
        &self,
        params: ReadResourceDirectoryRequestParams,
        ctx: Context,
    ) -> Answer<ReadResourceDirectoryResult> {
        let all = skills::directory(&self.hive, &whose_skills(&ctx)?, &params.uri).await?;
        let cursor = PaginatedRequestParams::default().with_cursor(params.cursor);
        let (items, next) = page(all, Some(cursor))?;
        let mut list =
            ListResourcesResult::with_all_items(items).with_ttl_ms(0).with_cache_scope(CacheScope::Private);
        list.next_cursor = next;
        Ok(list)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        (!self.of_run).then(|| requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Answer<()> {
        let mut changes = self.hive.tools.changes();
        let wants = subscription.accepted().clone();
        loop {
            tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                () = self.hive.stopping.cancelled() => return Ok(()),
                changed = changes.changed() => if changed.is_err() { return Ok(()) },
            }
            tokio::time::sleep(SETTLE).await;
            changes.borrow_and_update();
            let (sink, mut told) = (subscription.sink(), true);
            if wants.tools_list_changed == Some(true) {
                told &= sink.notify_tool_list_changed().await.is_ok();
            }
            if wants.resources_list_changed == Some(true) {
                told &= sink.notify_resource_list_changed().await.is_ok();
            }
            if !told {
                return Ok(());
            }
        }
    }

    async fn on_initialized(&self, ctx: NotificationContext<RoleServer>) {
        if !self.of_run {
            let (changes, stopping) = (self.hive.tools.changes(), self.hive.stopping.clone());
            let peer = ctx.peer;
            tokio::spawn(async move {
                let closed = async {
                    while !peer.is_transport_closed() {
                        tokio::time::sleep(Duration::from_secs(30)).await;
                    }
                };
                tokio::select! {
                    () = Self::tell(changes, peer.clone()) => {}
                    () = closed => {}
                    () = stopping.cancelled() => {}
                }
            });
        }
    }
}
