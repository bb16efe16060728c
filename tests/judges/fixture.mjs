// An MCP server on standard input and output with what the conformance suite calls by name: what it answers, says and
// asks must come through skep as it left here. `fixture.mjs newest` speaks 2026-07-28 alone, any other the versions before it.
import { createHmac, randomBytes } from 'node:crypto';
import { createInterface } from 'node:readline';

const text = (text) => ({ type: 'text', text });
const image = {
  type: 'image',
  mimeType: 'image/png',
  data: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==',
};
const audio = { type: 'audio', mimeType: 'audio/wav', data: 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=' };
const resource = (uri, mimeType, text) => ({ type: 'resource', resource: { uri, mimeType, text } });

const tools = {
  test_simple_text: { content: [text('This is a simple text response for testing.')] },
  test_image_content: { content: [image] },
  test_audio_content: { content: [audio] },
  test_embedded_resource: {
    content: [resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')],
  },
  test_multiple_content_types: {
    content: [
      text('Multiple content types test:'),
      image,
      resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
    ],
  },
  test_error_handling: { content: [text('This tool intentionally returns an error for testing')], isError: true },
};

const send = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
const tell = (method, params) => send({ method, params });
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));

const asked = new Map();
/** Asks the client, and waits for its answer. */
const ask = (method, params) =>
  new Promise((resolve) => {
    const id = `question-${asked.size}`;
    asked.set(id, resolve);
    send({ id, method, params });
  });
const elicit = async (message, properties) => {
  const told = await ask('elicitation/create', { message, requestedSchema: { type: 'object', properties } });
  return { content: [text(JSON.stringify(told.result ?? told.error))] };
};

/** Tools that say or ask something before they answer. */
const talkers = {
  test_tool_with_progress: async ({ _meta }) => {
    for (const progress of [0, 50, 100]) {
      tell('notifications/progress', { progressToken: _meta.progressToken, progress, total: 100 });
      await pause();
    }
    return { content: [text('Told of its progress.')] };
  },
  test_tool_with_logging: async () => {
    for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
      tell('notifications/message', { level: 'info', data });
      await pause();
    }
    return { content: [text('Logged what it did.')] };
  },
  test_sampling: async ({ arguments: { prompt } }) => {
    const messages = [{ role: 'user', content: text(prompt) }];
    const told = await ask('sampling/createMessage', { messages, maxTokens: 100 });
    return { content: [text(`LLM response: ${told.result?.content?.text ?? told.error?.message}`)] };
  },
  test_elicitation: ({ arguments: { message } }) =>
    elicit(message, { response: { type: 'string', description: "User's response" } }),
  test_elicitation_sep1034_defaults: () =>
    elicit('Please look at the defaults', {
      name: { type: 'string', default: 'John Doe' },
      age: { type: 'integer', default: 30 },
      score: { type: 'number', default: 95.5 },
      status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
      verified: { type: 'boolean', default: true },
    }),
  test_elicitation_sep1330_enums: () =>
    elicit('Please choose', {
      untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
      titledSingle: { type: 'string', oneOf: titled('value1', 'value2', 'value3') },
      legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['One', 'Two', 'Three'] },
      untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
      titledMulti: { type: 'array', items: { anyOf: titled('value1', 'value2', 'value3') } },
    }),
};
const titled = (...values) => values.map((value) => ({ const: value, title: `Is ${value}` }));

const user = (content) => ({ role: 'user', content });
const embedded = (uri) => resource(uri, 'text/plain', 'Embedded resource content for testing.');
const argument = (name) => ({ name, description: `Is ${name}.`, required: true });

const prompts = {
  test_simple_prompt: { messages: () => [user(text('This is a simple prompt for testing.'))] },
  test_prompt_with_arguments: {
    takes: ['arg1', 'arg2'],
    messages: ({ arg1, arg2 }) => [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
  },
  test_prompt_with_embedded_resource: {
    takes: ['resourceUri'],
    messages: ({ resourceUri }) => [user(embedded(resourceUri)), user(text('Please process the resource above.'))],
  },
  test_prompt_with_image: { messages: () => [user(image), user(text('Please analyze the image above.'))] },
};

const resources = {
  'test://static-text': { mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
  'test://static-binary': { mimeType: 'image/png', blob: image.data },
  'test://watched-resource': { mimeType: 'text/plain', text: 'Watched resource content' },
};
const ofTemplate = (uri) => {
  const id = uri.match(/^test:\/\/template\/([^/]+)\/data$/)?.[1];
  return id && { mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true, data: `Data for ${id}` }) };
};

const offers = {
  'prompts/list': () => ({
    prompts: Object.entries(prompts).map(([name, { takes }]) => ({
      name,
      description: `Is ${name}.`,
      arguments: takes?.map(argument),
    })),
  }),
  'prompts/get': ({ name, arguments: args }) => prompts[name] && { messages: prompts[name].messages(args) },
  'resources/list': () => ({
    resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri.slice(7), mimeType })),
  }),
  'resources/templates/list': () => ({
    resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: 'application/json' }],
  }),
  'resources/read': ({ uri }) => {
    const found = resources[uri] ?? ofTemplate(uri);
    return found && { contents: [{ uri, ...found }] };
  },
  'resources/subscribe': ({ uri }) => resources[uri] && {},
  'resources/unsubscribe': () => ({}),
};

const listed = (names) => names.map((name) => ({ name, description: `Is ${name}.`, inputSchema: { type: 'object' } }));

const older = {
  ...offers,
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {}, logging: {}, prompts: {}, resources: { subscribe: true } },
    serverInfo: { name: 'fixture', version: '1.0.0' },
  }),
  ping: () => ({}),
  'logging/setLevel': () => ({}),
  'tools/list': () => ({ tools: listed(Object.keys({ ...tools, ...talkers })) }),
  'tools/call': (params) => tools[params.name] ?? talkers[params.name]?.(params),
};

const done = (words) => ({ content: [text(words)] });
const form = (message, name, type = 'string') => ({
  method: 'elicitation/create',
  params: { message, requestedSchema: { type: 'object', properties: { [name]: { type } }, required: [name] } },
});
const sample = (words) => ({
  method: 'sampling/createMessage',
  params: { messages: [user(text(words))], maxTokens: 100 },
});
const roots = { method: 'roots/list', params: {} };
const ask_for = (inputRequests, requestState) => ({ resultType: 'input_required', inputRequests, requestState });

const key = randomBytes(16);
const sign = (what) => createHmac('sha256', key).update(what).digest('hex');
const seal = (what) => `${what}.${sign(what)}`;
const refuse = (code, message, data) => Promise.reject({ code, message, data });
/** What was sealed, or a refusal. */
const unseal = (state) => {
  const [what, signature] = (state ?? '').split('.');
  return signature === sign(what) ? what : refuse(-32602, 'requestState was tampered with');
};
const answered = (told, name) => told?.action === 'accept' && told.content?.[name] !== undefined;

const streams = new Map();
/** Tells of a change whoever listens. */
const change = (what) => {
  for (const [id, wants] of streams)
    if (wants[`${what}ListChanged`])
      tell(`notifications/${what}/list_changed`, { _meta: { 'io.modelcontextprotocol/subscriptionId': id } });
};
const changed = { tools: [], prompts: [] };

const askers = {
  test_input_required_result_elicitation: ({ user_name }) =>
    answered(user_name, 'name')
      ? done(`Hello, ${user_name.content.name}!`)
      : ask_for({ user_name: form('What is your name?', 'name') }),
  test_input_required_result_sampling: ({ capital_question: told }) =>
    told ? done(told.content.text) : ask_for({ capital_question: sample('What is the capital of France?') }),
  test_input_required_result_list_roots: ({ client_roots: told }) =>
    told ? done(`Roots: ${told.roots.map(({ uri }) => uri)}`) : ask_for({ client_roots: roots }),
  test_input_required_result_request_state: async ({ confirm }, state) =>
    confirm ? done(`state-ok ${await unseal(state)}`) : ask_for({ confirm: form('Sure?', 'ok', 'boolean') }, seal('one')),
  test_input_required_result_multiple_inputs: async ({ user_name, greeting, client_roots }, state) =>
    user_name && greeting && client_roots
      ? done(`All there, ${await unseal(state)}`)
      : ask_for(
          { user_name: form('Who?', 'name'), greeting: sample('Generate a greeting'), client_roots: roots },
          seal('many'),
        ),
  test_input_required_result_multi_round: async ({ step1, step2 }, state) => {
    if (step2) return done(`Done after ${await unseal(state)}`);
    if (!step1) return ask_for({ step1: form('Step 1: your name?', 'name') }, seal('first'));
    return ask_for({ step2: form('Step 2: your colour?', 'color') }, seal(`${await unseal(state)}-second`));
  },
  test_input_required_result_tampered_state: async ({ confirm }, state) =>
    confirm ? done(await unseal(state)) : ask_for({ confirm: form('Sure?', 'ok', 'boolean') }, seal('whole')),
  test_input_required_result_capabilities: (_, __, able) =>
    ask_for({
      ...(able.elicitation && { elicit: form('Input?', 'value') }),
      ...(able.sampling && { sample: sample('Sample') }),
    }),
  test_missing_capability: (_, __, able) =>
    able.sampling ? done('Fine.') : refuse(-32021, 'sampling is needed', { requiredCapabilities: { sampling: {} } }),
  test_streaming_elicitation: (_, __, ___, { progressToken }) => {
    tell('notifications/progress', { progressToken, progress: 50, total: 100 });
    return done('Streamed.');
  },
  test_logging_tool: (_, __, ___, meta) => {
    if (meta['io.modelcontextprotocol/logLevel']) tell('notifications/message', { level: 'info', data: 'Logged.' });
    return done('Logged where it was wanted.');
  },
  test_trigger_tool_change: () => {
    changed.tools.push(`test_dynamic_${changed.tools.length}`);
    change('tools');
    return done('Changed.');
  },
  test_trigger_prompt_change: () => {
    changed.prompts.push({ name: `test_dynamic_${changed.prompts.length}`, description: 'Was not there.' });
    change('prompts');
    return done('Changed.');
  },
};

const fresh = { ttlMs: 0, cacheScope: 'private' };
const newest = {
  initialize: ({ protocolVersion: requested }) =>
    refuse(-32022, 'initialize is of older versions', { supported: ['2026-07-28'], requested }),
  'server/discover': () => ({
    supportedVersions: ['2026-07-28'],
    capabilities: { tools: { listChanged: true }, prompts: { listChanged: true }, logging: {} },
    ...fresh,
  }),
  'tools/list': () => ({ tools: listed([...Object.keys(askers), ...changed.tools]), ...fresh }),
  'tools/call': ({ name, inputResponses, requestState, _meta }) =>
    askers[name]?.(inputResponses ?? {}, requestState, _meta['io.modelcontextprotocol/clientCapabilities'], _meta),
  'prompts/list': () => ({
    prompts: [{ name: 'test_input_required_result_prompt', description: 'Asks first.' }, ...changed.prompts],
    ...fresh,
  }),
  'prompts/get': ({ inputResponses }) => {
    const told = inputResponses?.user_context;
    if (!answered(told, 'context')) return ask_for({ user_context: form('What context?', 'context') });
    return { messages: [user(text(`Prompt with context: ${told.content.context}`))] };
  },
  // Answered when it ends, which it does with the process.
  'subscriptions/listen': ({ notifications }, id) => {
    streams.set(id, notifications);
    const _meta = { 'io.modelcontextprotocol/subscriptionId': id };
    tell('notifications/subscriptions/acknowledged', { notifications, _meta });
    return new Promise(() => {});
  },
};
const methods = process.argv[2] === 'newest' ? newest : older;

createInterface({ input: process.stdin }).on('line', async (line) => {
  const message = JSON.parse(line);
  const { id, method, params } = message;
  if (id === undefined) return;
  if (method === undefined) return asked.get(id)?.(message);
  const none = { code: -32601, message: `there is no ${method}` };
  try {
    const result = await methods[method]?.(params ?? {}, id);
    const complete = result && { resultType: methods === newest ? 'complete' : undefined, ...result };
    send({ id, ...(complete ? { result: complete } : { error: none }) });
  } catch (error) {
    send({ id, error });
  }
});
