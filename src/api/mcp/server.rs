//! What the MCP server answers: tools, the agent's skills as resources (SEP-2640), and the prompts and resources of the
//! skills' own servers.
//!
//! One value serves a request, or a session; who asks is read from each request.
#![expect(deprecated, reason = "clients up to 2025-11-25 set a level of log messages")]

use std::{sync::Arc, time::Duration};

use axum::http::request::Parts;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode,
        GetPromptRequestParams, GetPromptResponse, GetSkillRequestParams, GetSkillResult, Implementation,
        InputRequiredResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListSkillsResult, ListToolsResult, PaginatedRequestParams, ReadResourceDirectoryRequestParams,
        ReadResourceDirectoryResult, ReadResourceRequestParams, ReadResourceResponse, ResultType,
        ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
        Tool, UnsubscribeRequestParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::Map;
use tokio_util::sync::CancellationToken;

use super::{
    names,
    offers::{self, Changes, Watched},
    relay::{self, Level},
    results,
    sessions::Who,
    skills,
};
use crate::{
    app::{Hive, tools::types::ToolReply, types::AppError},
    ids::AgentId,
    mcp::{Instead, Line},
    tools,
};

/// Items of one page.
const PAGE: usize = 1_000;
/// URIs of skills' files; those of servers' resources are others.
const SKILLS: &str = "skill://";

/// Cancelled when the client that sent a request has gone.
#[derive(Clone)]
pub(super) struct Gone(pub CancellationToken);

/// See the module.
#[derive(Clone)]
pub(super) struct Server {
    hive: Arc<Hive>,
    of_run: bool,
    level: Arc<Level>,
    watched: Watched,
}

type Context = RequestContext<RoleServer>;
type Answer<T> = Result<T, ErrorData>;

fn who(ctx: &Context) -> Answer<Who> {
    let parts = ctx.extensions.get::<Parts>();
    let who = parts.and_then(|parts| parts.extensions.get::<Who>()).cloned();
    who.ok_or_else(|| ErrorData::invalid_request("nobody vouches for this request", None))
}

/// Whose skills, prompts and resources are asked for: a run's endpoint has tools alone.
fn whose(ctx: &Context) -> Answer<AgentId> {
    let who = who(ctx)?;
    if who.run.is_some() {
        let why = "a run's own endpoint has tools and nothing else";
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
        Self { hive, of_run, level: Arc::default(), watched: Watched::default() }
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
            (AppError::NotFound(why), _) => {
                let known = self.hive.tools(&who.agent).await.ok()?;
                tools::find(&known, name).err().map(|_| why.clone())
            }
            _ => None,
        }
    }
}

/// What a client gets instead of an answer.
fn asked<T: From<InputRequiredResult>>(instead: Instead) -> Answer<T> {
    match instead {
        Instead::Asked(asked) => Ok(asked.into()),
        Instead::Refused(refusal) => Err(refusal),
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
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_prompts_list_changed()
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

    async fn call_tool(&self, mut params: CallToolRequestParams, ctx: Context) -> Answer<CallToolResponse> {
        let who = who(&ctx)?;
        let (responses, state) = (params.input_responses.take(), params.request_state.take());
        // The clients of a run's endpoint have no stream to hear on.
        let (line, heard) = match self.of_run {
            true => (None, None),
            false => Some(relay::open(&ctx, &self.level, responses, state)?).unzip(),
        };
        let (called, instead) = relay::attend(&ctx, heard, self.call(&who, params, line)).await?;
        match instead {
            Some(instead) => asked(instead),
            None => called.map(Into::into),
        }
    }

    async fn list_resources(
        &self,
        params: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Answer<ListResourcesResult> {
        let agent = whose(&ctx)?;
        let mut all = skills::resources(&self.hive, &agent).await?;
        all.extend(self.hive.resources(&agent).await.map_err(|e| refused(&e))?);
        let (items, next) = page(all, params)?;
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
        let agent = whose(&ctx)?;
        let ReadResourceRequestParams { uri, input_responses, request_state, .. } = params;
        if uri.starts_with(SKILLS) {
            return skills::read(&self.hive, &agent, uri).await.map(Into::into);
        }
        let (line, heard) = relay::open(&ctx, &self.level, input_responses, request_state)?;
        let resource = self.hive.read_resource(&agent, uri.clone(), Some(line));
        let (read, instead) = relay::attend(&ctx, Some(heard), resource).await?;
        if let Some(instead) = instead {
            return asked(instead);
        }
        match read {
            Ok(mut read) => {
                read.result_type = Some(ResultType::COMPLETE);
                Ok(read.with_ttl_ms(0).with_cache_scope(CacheScope::Private).into())
            }
            Err(AppError::NotFound(_)) => Err(skills::absent(&uri)),
            Err(error) => Err(refused(&error)),
        }
    }

    async fn list_skills(
        &self,
        params: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Answer<ListSkillsResult> {
        let agent = whose(&ctx)?;
        let (items, next) = page(skills::list(&self.hive, &agent).await?, params)?;
        let mut list =
            ListSkillsResult::with_all_items(items).with_ttl_ms(0).with_cache_scope(CacheScope::Private);
        list.next_cursor = next;
        Ok(list)
    }

    async fn get_skill(&self, params: GetSkillRequestParams, ctx: Context) -> Answer<GetSkillResult> {
        let skills = skills::list(&self.hive, &whose(&ctx)?).await?;
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
        let all = skills::directory(&self.hive, &whose(&ctx)?, &params.uri).await?;
        let cursor = PaginatedRequestParams::default().with_cursor(params.cursor);
        let (items, next) = page(all, Some(cursor))?;
        let mut list =
            ListResourcesResult::with_all_items(items).with_ttl_ms(0).with_cache_scope(CacheScope::Private);
        list.next_cursor = next;
        Ok(list)
    }

    async fn list_prompts(
        &self,
        params: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Answer<ListPromptsResult> {
        let prompts = self.hive.server_prompts(&whose(&ctx)?).await.map_err(|e| refused(&e))?;
        let (items, next) = page(prompts, params)?;
        let mut list =
            ListPromptsResult::with_all_items(items).with_ttl_ms(0).with_cache_scope(CacheScope::Private);
        list.next_cursor = next;
        Ok(list)
    }

    async fn get_prompt(&self, params: GetPromptRequestParams, ctx: Context) -> Answer<GetPromptResponse> {
        let agent = whose(&ctx)?;
        let GetPromptRequestParams { name, arguments, input_responses, request_state, .. } = params;
        let (line, heard) = relay::open(&ctx, &self.level, input_responses, request_state)?;
        let prompt = self.hive.server_prompt(&agent, &name, arguments, Some(line));
        let (got, instead) = relay::attend(&ctx, Some(heard), prompt).await?;
        if let Some(instead) = instead {
            return asked(instead);
        }
        let mut got = got.map_err(|e| refused(&e))?;
        got.result_type = Some(ResultType::COMPLETE);
        Ok(got.into())
    }

    async fn list_resource_templates(
        &self,
        params: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Answer<ListResourceTemplatesResult> {
        let all = self.hive.resource_templates(&whose(&ctx)?).await.map_err(|e| refused(&e))?;
        let (items, next) = page(all, params)?;
        let list = ListResourceTemplatesResult::with_all_items(items);
        let mut list = list.with_ttl_ms(0).with_cache_scope(CacheScope::Private);
        list.next_cursor = next;
        Ok(list)
    }

    async fn subscribe(&self, params: SubscribeRequestParams, ctx: Context) -> Answer<()> {
        let agent = whose(&ctx)?;
        // Published files never change.
        if params.uri.starts_with(SKILLS) {
            return Ok(());
        }
        self.watched.add(&self.hive, &agent, params.uri, ctx.peer).await
    }

    async fn unsubscribe(&self, params: UnsubscribeRequestParams, ctx: Context) -> Answer<()> {
        whose(&ctx)?;
        self.watched.remove(&params.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        (!self.of_run).then(|| requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Answer<()> {
        let agent = whose(subscription.request_context())?;
        offers::listen(&self.hive, &agent, &subscription).await;
        Ok(())
    }

    async fn on_initialized(&self, ctx: NotificationContext<RoleServer>) {
        if !self.of_run {
            let (changes, stopping) = (Changes::of(&self.hive), self.hive.stopping.clone());
            let peer = ctx.peer;
            tokio::spawn(async move {
                let closed = async {
                    while !peer.is_transport_closed() {
                        tokio::time::sleep(Duration::from_secs(30)).await;
                    }
                };
                tokio::select! {
                    () = changes.tell(peer.clone()) => {}
                    () = closed => {}
                    () = stopping.cancelled() => {}
                }
            });
        }
    }
}
